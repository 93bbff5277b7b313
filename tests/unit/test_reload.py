"""A queue is brought in again while what it has is sent and ends: each row is sent once, whatever had met it before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.unit.partition_rig import HERE, QUEUE, START_MS, hot, key, only, page, rows, taken
from tests.unit.tight_memory import Tight
from timerd.core.partition import settled_index
from timerd.core.partition.effects import ReadPage
from timerd.core.partition.holding import Offered
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.row_table import RowTable
from timerd.core.taken import AckedRows, QueueKey
from timerd.model.identity import RowKey
from timerd.model.registers import Move, MoveState, Place
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, ROW, RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.task import Template

NOW_MS = START_MS + 60_000
LATER_MS = START_MS + 1_000_000
URGENT = Template(*QUEUE, priority=9)
OTHER = QueueKey("default", "calls")
FOR_OTHER = Template(*OTHER)


class Hand:
    """The rows of one partition and their log. `sent`: all that was taken, in that order."""

    def __init__(self, most_rows: int) -> None:
        self.memory = Tight(most_rows * (ROW.itemsize + len(b"body")))
        self._table = RowTable(HERE, self.memory, 1, 0)
        self.rows, self.log = self._table._rows, self._table._log
        self.sent: list[RowKey] = []
        self._open: list[list[RowKey]] = []

    def load(self, *groups: RowGroup) -> None:
        """By a sweep."""
        self.rows.merge(*groups)
        self.rows.met.read(max(group.source for group in groups))

    def send(self, limit: int = 100, queue: QueueKey = QUEUE) -> None:
        found = self._table.take(queue, limit, LATER_MS, LATER_MS)
        if found is not None:
            self._open.append(found.rows.keys())
            self.sent += self._open[-1]

    def ack(self) -> None:
        """What was sent first of what is open."""
        if self._open:
            keys = self._open.pop(0)
            part = AckedRows(HERE, [k.position_ms for k in keys], [k.digest for k in keys], [k.version for k in keys])
            together, others = self._table.end_acked([part])
            assert together == [part]
            assert not others


def urgent(*keys: RowKey, source: int) -> RowGroup:
    group = rows(*keys, source=source)
    group.templates = [URGENT]
    return group


def of_other(*keys: RowKey, source: int) -> RowGroup:
    group = rows(*keys, source=source)
    group.templates = [FOR_OTHER]
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
    here.rows.left.leave(QUEUE, here.rows.waiting.lowest(QUEUE, here.rows.waiting.size_bytes // 2))
    here.rows.waiting.cut(QUEUE, *here.rows.left.cut[QUEUE])
    here.send()
    here.rows.begin_reload(QUEUE)
    assert here.rows.left.reload is not None
    assert here.rows.left.reload.is_plain
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
        make = chance.choices((rows, urgent, of_other), (5, 3, 2))[0]
        stored.append(make(*keys[start : start + 8], source=source))
    here = Hand(chance.choice((8, 24)))

    def go_on() -> None:
        for _ in range(chance.randrange(4)):
            queue = chance.choice((QUEUE, OTHER))
            here.send(chance.randrange(1, 12), queue) if chance.random() < 0.5 else here.ack()

    for group in stored:
        here.load(group)
        go_on()
    while here.rows.left.cut or here.rows.waiting.rows:
        if here.rows.left.cut:
            here.rows.begin_reload(chance.choice(list(here.rows.left.cut)))
            for at in range(0, len(stored), 2):
                here.rows.merge(*stored[at : at + 2])
                go_on()
            here.rows.end_reload()
        here.send()
        here.send(queue=OTHER)
        go_on()
    assert sorted(here.sent) == sorted(keys)
    while here.rows.open:
        here.ack()
    assert here.log.totals() == {Outcome.ACKED: len(keys)}
    assert all(here.log.settled.get(each) is Outcome.ACKED for each in keys)


# -- what is written meanwhile ----------------------------------------------------------------------------------------


def mixed(own: RowKey, other: RowKey, source: int) -> RowGroup:
    """One message with a task for each."""
    group = concat([rows(own), of_other(other, source=0)])
    group.source = source
    return group


def test_what_another_queue_has_in_hand_is_no_matter_of_the_reload() -> None:
    """Of a queue that is worked something is open nearly always; what comes back beside it would be looked for among
    all that has ended."""
    here, keys = Hand(4), [key(n, n * 10) for n in range(8)]
    message = concat([rows(*keys), of_other(key(9, 900), source=0)])
    message.source = 1
    here.load(message)
    here.send(queue=OTHER)
    here.memory.budget_bytes *= 100
    here.rows.begin_reload(QUEUE)
    assert here.rows.left.reload is not None
    assert here.rows.left.reload.is_plain
    here.ack()
    here.rows.merge(message)
    here.rows.end_reload()
    here.send()
    here.send(queue=OTHER)
    assert here.sent == [key(9, 900), *keys]


def reloading(source: int) -> PartitionMachine:
    """Its queue kept one row of two, has sent it and is brought in again."""
    machine = hot(rows(key(0, 10), key(1, 20), source=source), cursor=source)
    machine._table._rows.left.leave(QUEUE, machine._table._rows.waiting.lowest(QUEUE, ROW.itemsize + len(b"body")))
    machine._table._rows.waiting.cut(QUEUE, *machine._table._rows.left.cut[QUEUE])
    assert taken(machine) == [key(0, 10)]
    [read] = only(machine.tick(NOW_MS), ReadPage)
    assert isinstance(read, ReadPage)
    assert machine.reload is not None
    return machine


def sent_of(machine: PartitionMachine, queue: QueueKey) -> list[RowKey]:
    found = machine.take(queue, 100, NOW_MS)
    return found.rows.keys() if found is not None else []


@pytest.mark.parametrize("source", [1, 0])
def test_a_task_of_another_queue_is_sent_while_a_queue_is_brought_in_again(source: int) -> None:
    """The reload lasts as long as that queue takes to leave, which may be minutes."""
    machine, new = reloading(source), source and 2
    machine.hint(of_other(key(7, 500), source=new), new)
    assert sent_of(machine, OTHER) == [key(7, 500)]


@pytest.mark.parametrize("source", [1, 0])
def test_what_comes_for_both_is_sent_once(source: int) -> None:
    machine, new = reloading(source), source and 2
    message = mixed(key(8, 600), key(9, 600), source=new)
    stored = rows(key(0, 10), key(1, 20), source=source)
    machine.hint(message, new)
    assert sent_of(machine, OTHER) == [key(9, 600)]
    assert sent_of(machine, QUEUE) == []
    # The reload meets the message too, and the sweep after it.
    machine.page_read(page(stored, message, cursor=new), NOW_MS)
    assert machine.reload is None
    assert sent_of(machine, QUEUE) == [key(1, 20)]
    machine.page_read(page(message, cursor=new), NOW_MS)
    assert (sent_of(machine, QUEUE), sent_of(machine, OTHER)) == ([key(8, 600)], [])


def test_below_closing_a_task_of_another_queue_is_taken_in_and_one_of_this_is_not() -> None:
    machine = reloading(1)
    assert machine.offer(of_other(key(7, 500), source=2), 2) is Offered.ADOPTED
    assert machine.offer(rows(key(6, 500), source=3), 3) is Offered.BELOW_FLOOR
    assert machine.offer(mixed(key(8, 600), key(9, 600), source=4), 4) is Offered.BELOW_FLOOR
    assert machine.offer(of_other(key(5, 500), source=5), 5, is_repeat=True) is Offered.NOT_NOW
    assert sent_of(machine, OTHER) == [key(7, 500)]


@pytest.mark.parametrize("is_open", [True, False], ids=["open when it begins", "sent meanwhile"])
def test_a_retry_of_another_queue_that_ended_meanwhile_is_not_sent_when_it_is_hinted_again(*, is_open: bool) -> None:
    """Who carries a row writes it anew after an error, under another name of the commit."""
    carried = rows(*(key(n, 900, 1) for n in range(40)), source=1, flags=FLAG_CARRIED)
    carried.templates = [FOR_OTHER]
    machine = hot(rows(key(50, 10), key(51, 20), source=1), carried, cursor=1)
    machine._table._rows.left.leave(QUEUE, machine._table._rows.waiting.lowest(QUEUE, ROW.itemsize + len(b"body")))
    machine._table._rows.waiting.cut(QUEUE, *machine._table._rows.left.cut[QUEUE])
    assert taken(machine) == [key(50, 10)]
    sent = machine.take(OTHER, 100, NOW_MS) if is_open else None
    machine.tick(NOW_MS)
    assert machine.reload is not None
    sent = sent or machine.take(OTHER, 100, NOW_MS)
    assert sent is not None
    columns = sent.rows.columns
    acked = AckedRows(HERE, columns["position_ms"].tolist(), sent.digests, columns["version"].tolist())
    assert machine.end_acked([acked]) == ([acked], [])
    machine.hint(replace(carried, source=2), 2)
    assert sent_of(machine, OTHER) == []


def moved_in(template: Template, source: int) -> RowGroup:
    group = rows(key(7, 500, 1 << 16), source=source, flags=FLAG_MOVED_IN)
    group.templates = [template]
    return group


@pytest.mark.parametrize(("queue", "is_sent"), [(OTHER, True), (QUEUE, False)])
def test_a_task_of_another_queue_that_was_moved_here_is_sent_meanwhile(queue: QueueKey, *, is_sent: bool) -> None:
    machine = reloading(1)
    digest, alive = key(7).digest, Place(HERE, key(7, 500, 1 << 16))
    # The mover asked first: that is for its own place, and this instance holds both.
    machine.suspend(digest)
    machine.hint(moved_in(Template(*queue), 2), 2)
    found = Move(1, MoveState.MOVED, Place(HERE, key(7)), alive, "r", alive.key.position_ms, alive.key.position_ms)
    machine.moves_read({digest: found}, {digest: machine.asking(digest)})
    assert sent_of(machine, queue) == ([alive.key] if is_sent else [])
