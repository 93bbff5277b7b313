"""Earliest deadline first: who can still be in time goes before who cannot, and what is old ends all the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from timerd.core.fairness import KeyedRows, LimitKeys
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup, concat
from timerd.model.task import Template

QUEUE = QueueKey("default", "mail")
NEVER = 0


class Mail:
    """Rows of one queue by their fire times. A row is named by when it is late: in seconds."""

    def __init__(self) -> None:
        self.keys = LimitKeys(set())
        self.released: list[RowGroup] = []
        self.home = KeyedRows(Partition(TIME_SCOPE, 0, 0), self.keys, self.released.append)
        self.keys.go_by_deadlines(QUEUE, is_so=True)

    def file(self, *late_s: int, fired_s: int = 0, firm_s: int = 0, priority: int = 0, limit_key: str = "") -> None:
        columns = np.zeros(len(late_s), ROW)
        columns["position_ms"] = columns["fire_at_ms"] = 1_000 * fired_s
        columns["template"] = np.arange(len(late_s))
        same = Template(*QUEUE, priority, expire_at_ms=1_000 * firm_s, limit_key=limit_key)
        templates = [replace(same, soft_expire_at_ms=1_000 * each) for each in late_s]
        self.home.file(QUEUE, RowGroup(columns, np.zeros(1, PREFIX), templates, b"", []), len(late_s))

    def take(self, most: int, now_s: int = 0) -> list[int]:
        turn = self.keys.turn(QUEUE, 1_000 * now_s)
        picks = turn.pick(most)
        turn.end()
        return [chunk.rows.template_of(row).soft_expire_at_ms // 1_000 for chunk, row in turn.arranged(picks)]


def test_the_one_that_is_late_soonest_is_next_whenever_it_came() -> None:
    mail = Mail()
    mail.file(50, 20, 90)
    mail.file(10, 70, fired_s=5)
    assert mail.take(2) == [10, 20]
    mail.file(60, 30, fired_s=6)
    assert mail.take(9) == [30, 50, 60, 70, 90]
    assert mail.home.rows == 0


def test_where_nothing_says_when_it_is_late_it_is_when_it_expires() -> None:
    mail = Mail()
    mail.file(40)
    mail.file(NEVER, firm_s=30)
    mail.file(20, firm_s=90)
    assert mail.take(3) == [20, NEVER, 40]


def test_what_is_late_or_has_no_deadline_goes_behind_by_age() -> None:
    """Priority counts as age, as in other queues."""
    mail = Mail()
    mail.file(10, fired_s=3)
    mail.file(20, fired_s=1)
    mail.file(NEVER, fired_s=2)
    mail.file(30, fired_s=60, priority=1)
    mail.file(90, 80, fired_s=4)
    assert mail.take(9, now_s=70) == [80, 90, 30, 20, NEVER, 10]


def test_every_eighth_is_the_oldest_of_these() -> None:
    mail = Mail()
    mail.file(5, fired_s=2)
    mail.file(6, fired_s=1)
    mail.file(*range(100, 120))
    sent = mail.take(30, now_s=50)
    assert (sent.index(6), sent.index(5)) == (7, 15)
    assert [each for each in sent if each > 50] == [*range(100, 120)]


def test_what_has_expired_is_not_counted_as_sent() -> None:
    """It is picked so that it ends. The eighth is one that is worth something."""
    mail = Mail()
    mail.file(1, 2, 3, firm_s=40)
    mail.file(5, fired_s=1, firm_s=60)
    mail.file(*range(100, 120))
    sent = mail.take(30, now_s=50)
    assert sent[7:11] == [1, 2, 3, 5]


def test_a_queue_may_go_by_deadlines_and_by_age_again() -> None:
    """What was filed goes back to where it came from, and is filed anew."""
    mail = Mail()
    mail.file(50, 20)
    mail.file(10, limit_key="acme", fired_s=1)
    for is_so in (False, True):
        mail.keys.go_by_deadlines(QUEUE, is_so=is_so)
        assert mail.home.rows == 0
        assert mail.keys.has_turns(QUEUE) != is_so
        back = concat(mail.released)
        mail.released.clear()
        mail.home.file(QUEUE, back, len(back))
        assert (mail.home.rows, mail.keys.next_ms(QUEUE)) == (3, -np.inf)
    assert mail.take(3) == [10, 20, 50]


def test_what_a_partition_does_not_give_now_it_gets_back() -> None:
    mail = Mail()
    mail.file(50, 20)
    mail.keys.on_given(lambda: None, lambda _: False)
    assert mail.take(9) == []
    assert (mail.home.rows, len(mail.released[0]), mail.keys.next_ms(QUEUE)) == (0, 2, np.inf)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_order_of_a_list_that_is_sorted_each_time(seed: int) -> None:
    random, mail = Random(seed), Mail()
    waiting: list[tuple[int, int]] = []
    since_old = 0
    for now_s in range(0, 300, 3):
        late_s = [random.choice((NEVER, *range(now_s - 20, now_s + 40))) or NEVER for _ in range(random.randrange(5))]
        late_s = [max(0, each) for each in late_s]
        if late_s:
            mail.file(*late_s, fired_s=now_s)
        waiting += [(each, now_s) for each in late_s]
        for sent in mail.take(random.randrange(4), now_s):
            timely = [each for each in waiting if each[0] > now_s]
            others = [each for each in waiting if each[0] <= now_s]
            is_old = not timely or (bool(others) and since_old >= 7)
            best = min(others, key=lambda each: each[1]) if is_old else min(timely)
            assert (sent <= now_s, sent if not is_old else 0) == (is_old, best[0] if not is_old else 0)
            found = min([each for each in waiting if each[0] == sent], key=lambda each: each[1])
            assert found[1] == best[1] or not is_old
            waiting.remove(found)
            since_old = 0 if is_old else since_old + 1
    assert mail.home.rows == len(waiting)
