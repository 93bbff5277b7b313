"""What the limit of a queue allows, slice by slice."""

from __future__ import annotations

import math
from collections.abc import Collection

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation import KnownRules, RuleLimits
from timerd.core.taken import QueueKey
from timerd.model.regulations import Mode, QueueLimit, Regulation

MAIL, OTHER = QueueKey("default", "mail"), QueueKey("default", "other")
NOW_MS = 1_000_000


class Rig:
    def __init__(self, limit: QueueLimit, *, is_from_before: bool = False) -> None:
        self.known, self.hand = KnownRules(), HandCount()
        self.opened: list[Collection[QueueKey]] = []
        rules = Regulation(1, limit=limit)
        self.known.read({MAIL: rules} if is_from_before else {}, self.known.life)
        self.known.heard(MAIL, rules)
        self.limits = RuleLimits(self.known, lambda _: self.hand, self.opened.append)

    def send(self, tasks: int, now_ms: int = NOW_MS) -> int:
        """As many as are allowed."""
        allowed = self.limits.allow(MAIL, tasks, now_ms).tasks
        if allowed:
            self.hand.open += allowed
            self.limits.sent(Slice(MAIL, now_ms, allowed, 1, 100, is_dry=False, is_all=False))
        return allowed


def test_who_waits_for_an_end_is_told_of_it_once() -> None:
    rig = Rig(QueueLimit(max_in_hand=3))
    assert (rig.send(10), rig.send(10)) == (3, 0)
    assert rig.limits.allow(MAIL, 10, NOW_MS) == Allowance(0, math.inf)
    assert rig.limits.limited_until_ms(MAIL, NOW_MS) == math.inf
    rig.hand.less(1)
    rig.hand.less(1)
    assert rig.opened == [[MAIL]]
    assert rig.send(10) == 2


def test_the_least_of_rate_and_hand_counts() -> None:
    rig = Rig(QueueLimit(5, 10, 1_000, 20))
    assert rig.send(100) == 5
    rig.hand.less(5)
    assert rig.send(100) == 5
    rig.hand.less(5)
    # Of the burst ten are left, and five may be in hand.
    assert [rig.send(3), rig.send(3)] == [3, 2]


def test_nothing_is_reserved_for_what_is_not_sent() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 2))
    for _ in range(5):
        assert rig.limits.allow(MAIL, 100, NOW_MS).tasks == 2
    assert rig.send(2) == 2
    assert rig.limits.allow(MAIL, 100, NOW_MS) == Allowance(0, NOW_MS + 100)
    assert rig.limits.limited_until_ms(MAIL, NOW_MS) == NOW_MS + 100
    assert rig.limits.limited_until_ms(OTHER, NOW_MS) is None


def test_after_a_start_the_burst_is_empty() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 50), is_from_before=True)
    assert (rig.send(100), rig.send(100, NOW_MS + 100), rig.send(100, NOW_MS + 300)) == (0, 1, 2)


def test_a_pause_takes_nothing_from_the_burst() -> None:
    rig = Rig(QueueLimit(0, 10, 1_000, 5))
    rig.known.heard(MAIL, Regulation(2, Mode.PAUSED, limit=QueueLimit(0, 10, 1_000, 5)))
    assert rig.send(5) == 0
    rig.known.heard(MAIL, Regulation(3, limit=QueueLimit(0, 10, 1_000, 5)))
    assert rig.send(9) == 5
