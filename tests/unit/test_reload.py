"""A queue is brought in again while what it has is sent and ends: each row is sent once, whatever had met it before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.unit.test_partition_machine import HERE, QUEUE, START_MS, key, rows
from tests.unit.test_rows_in_hand import Tight
from timerd.core import settled_index
from timerd.core.closing_open import end_acked
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.taken import AckedRows
from timerd.model.identity import RowKey
from timerd.model.rows import ROW, RowGroup
from timerd.model.settle import Outcome
from timerd.model.task import Template

NOW_MS = START_MS + 1_000_000
URGENT = Template(*QUEUE, priority=9)


class Hand:
    """The rows of one partition and their log. `sent`: all that was taken, in that order."""

    def __init__(self, most_rows: int) -> None:
        self.log = SettleLog(HERE, 1)
        self.memory = Tight(most_rows * (ROW.itemsize + len(b"body")))
        self.rows = RowsInHand(self.memory, self.log.settled)
        self.sent: list[RowKey] = []
        self._open: list[list[RowKey]] = []

    def load(self, *groups: RowGroup) -> None:
        """By a sweep."""
        self.rows.merge(*groups)
        self.rows.forget_hints(max(group.source for group in groups))

    def send(self, limit: int = 100) -> None:
        found, digests, _ = self.rows.take(QUEUE, limit, NOW_MS)
        if found is not None and digests:
            self.rows.send(found, digests, NOW_MS)
            self._open.append(found.keys())
            self.sent += self._open[-1]

    def ack(self) -> None:
        """What was sent first of what is open."""
        if self._open:
            keys = self._open.pop(0)
            part = AckedRows(HERE, [k.position_ms for k in keys], [k.digest for k in keys], [k.version for k in keys])
            together, others = end_acked(self.rows, self.log, [part])
            assert together == [part]
            assert not others


def urgent(*keys: RowKey, source: int) -> RowGroup:
    group = rows(*keys, source=source)
    group.templates = [URGENT]
    return group


@pytest.fixture(autouse=True)
def few_are_many() -> Iterator[None]:
    with patch.object(settled_index, "FRESH", 3), patch.object(settled_index, "LARGEST_MERGE", 6):
        yield


def test_what_ends_behind_the_cut_before_its_page_comes_is_not_sent_again() -> None:
    here = Hand(4)
    first, old = urgent(key(20, 900), source=1), rows(*(key(n, n * 10) for n in range(8)), source=2)
    here.load(first)
    here.send()
    here.load(old)
    here.memory.budget_bytes *= 100
    here.rows.begin_reload(QUEUE)
    here.ack()
    here.rows.merge(first, old)
    here.rows.end_reload()
    here.send()
    assert sorted(here.sent) == sorted([key(20, 900), *(key(n, n * 10) for n in range(8))])


def test_of_one_instant_what_was_sent_before_the_cut_does_not_stand_behind_it() -> None:
    here = Hand(100)
    keys = [key(n) for n in range(40)]
    here.load(rows(*keys, source=1))
    here.rows.withheld[QUEUE] = here.rows.waiting.lowest(QUEUE, here.rows.waiting.size_bytes // 2)
    here.rows.waiting.cut(QUEUE, *here.rows.withheld[QUEUE])
    here.send()
    here.rows.begin_reload(QUEUE)
    assert here.rows.reloading is not None
    assert here.rows.reloading.is_plain
    here.rows.merge(rows(*keys, source=1))
    here.rows.end_reload()
    here.send()
    assert sorted(here.sent) == sorted(keys)


@pytest.mark.parametrize("seed", range(60))
def test_each_row_is_sent_once_however_sending_ends_and_pages_meet(seed: int) -> None:
    chance = random.Random(seed)
    keys = [key(n, chance.randrange(1, 60)) for n in range(80)]
    stored: list[RowGroup] = []
    for source, start in enumerate(range(0, 80, 8), start=1):
        make = urgent if chance.random() < 0.3 else rows
        stored.append(make(*keys[start : start + 8], source=source))
    here = Hand(chance.choice((8, 24)))

    def go_on() -> None:
        for _ in range(chance.randrange(4)):
            here.send(chance.randrange(1, 12)) if chance.random() < 0.5 else here.ack()

    for group in stored:
        here.load(group)
        go_on()
    while here.rows.withheld or here.rows.waiting.rows:
        if here.rows.withheld:
            here.rows.begin_reload(QUEUE)
            for at in range(0, len(stored), 2):
                here.rows.merge(*stored[at : at + 2])
                go_on()
            here.rows.end_reload()
        here.send()
        go_on()
    assert sorted(here.sent) == sorted(keys)
    while here.rows.open:
        here.ack()
    assert here.log.totals() == {Outcome.ACKED: len(keys)}
    assert all(here.log.settled.get(each) is Outcome.ACKED for each in keys)
