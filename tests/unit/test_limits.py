"""Of several limits the least counts, and all of them hear of what was sent."""

from __future__ import annotations

import math

from timerd.core.dispatch.limits import Allowance, Credit, Limits, Slice
from timerd.core.dispatch.quantum import FIRST_SLICE_TASKS, ROUND_TASKS, SLICE_BYTES, Quantum
from timerd.core.taken import QueueKey

MAIL, OTHER = QueueKey("default", "mail"), QueueKey("default", "other")
NOW_MS = 1_000_000
SENT = Slice(MAIL, NOW_MS, 10, 2, 4_000, is_dry=False, is_all=False)


class Says:
    """A limit that says one thing."""

    def __init__(self, tasks: int, next_ms: float = NOW_MS, *, heeds_credit: bool = False) -> None:
        self.said = Allowance(tasks, next_ms, heeds_credit)
        self.heard: list[Slice] = []
        self.forgotten: list[QueueKey] = []

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        return self.said

    def sent(self, sent: Slice) -> float:
        self.heard.append(sent)
        return self.said.next_ms

    def forget(self, queue: QueueKey) -> None:
        self.forgotten.append(queue)


def test_the_least_counts() -> None:
    assert Limits([Says(7), Says(3), Says(900)]).allow(MAIL, 1_000, NOW_MS).tasks == 3
    assert Limits([]).allow(MAIL, 1_000, NOW_MS).tasks == 1_000


def test_where_nothing_is_allowed_it_is_asked_again_when_all_may_allow_some() -> None:
    limits = Limits([Says(0, NOW_MS + 5), Says(0, NOW_MS + 9), Says(4, NOW_MS + 500)])
    assert limits.allow(MAIL, 1_000, NOW_MS) == Allowance(0, NOW_MS + 9)


def test_credit_may_lift_what_heeds_it() -> None:
    assert Limits([Says(0, NOW_MS + 5, heeds_credit=True), Says(2)]).allow(MAIL, 9, NOW_MS).heeds_credit
    assert not Limits([Says(2, heeds_credit=True)]).allow(MAIL, 9, NOW_MS).heeds_credit


def test_credit_lifts_nothing_where_another_limit_keeps_it_back_for_longer() -> None:
    """Else the queue would be looked at in each round, and a hold of hours would keep others from theirs."""
    held, paused = Says(0, NOW_MS + 5, heeds_credit=True), Says(0, math.inf)
    for each in ([held, paused], [paused, held]):
        assert Limits(each).allow(MAIL, 9, NOW_MS) == Allowance(0, math.inf, heeds_credit=False)


def test_all_hear_of_what_was_sent_and_the_last_one_says_when_more_may_go() -> None:
    all_of_them = [Says(1, NOW_MS), Says(1, NOW_MS + 3), Says(1, NOW_MS + 1)]
    limits = Limits(all_of_them)
    assert limits.sent(SENT) == NOW_MS + 3
    limits.forget(MAIL)
    assert [(each.heard, each.forgotten) for each in all_of_them] == [([SENT], [MAIL])] * 3


def test_credit_is_what_the_workers_want() -> None:
    limit = Credit({MAIL: 5}.__getitem__)
    assert limit.allow(MAIL, 1_000, NOW_MS) == Allowance(5, math.inf)
    assert limit.allow(MAIL, 2, NOW_MS).tasks == 2


def is_over(quantum: Quantum) -> bool:
    return quantum.is_used_up


def test_a_queue_has_its_share_of_a_round_and_the_round_its_end() -> None:
    quantum = Quantum(lambda queue, _: queue == OTHER)
    quantum.begin(1)
    assert quantum.allow(OTHER, 1_000, NOW_MS).tasks == FIRST_SLICE_TASKS
    quantum.sent(SENT._replace(tasks=100, messages=1, size_bytes=100 * SLICE_BYTES // 50))
    assert quantum.allow(MAIL, 1_000, NOW_MS).tasks == 49
    assert is_over(quantum)
    quantum.begin(4)
    assert not is_over(quantum)
    quantum.forget(MAIL)
    assert quantum.allow(MAIL, 1_000, NOW_MS).tasks == FIRST_SLICE_TASKS
    assert quantum.allow(MAIL, 10, NOW_MS).tasks == 10
    quantum.sent(SENT._replace(tasks=ROUND_TASKS))
    assert is_over(quantum)
