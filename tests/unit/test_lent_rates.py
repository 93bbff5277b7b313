"""What an instance of a cluster asks keepers for, where its queue has several limits: the scarcest first."""

from __future__ import annotations

import math

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation import (
    AllRules,
    Grant,
    Hands,
    HeldBack,
    KnownRules,
    LentLimits,
    LentRates,
    LimitLabels,
    RuleLimits,
    TokenGrant,
)
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import QueueLimit, Regulation

MAIL = QueueKey("default", "mail")
NOW_MS, BOOT_MS = 1_000_000, 5_000.0
SLOW, FAST = QueueLimit(0, 6, 60_000, 1), QueueLimit(2, 10, 1_000, 5)


def labels(name: str) -> LimitLabels:
    return LimitLabels("default", "", name)


class Rig:
    """A queue with ten due tasks, which lists two limits."""

    def __init__(self) -> None:
        self.boot_ms, self.hand = BOOT_MS, HandCount()
        self.asked: list[tuple[str, str]] = []
        known = KnownRules()
        known.read(AllRules(), known.life)
        for name, limit in (("fast", FAST), ("slow", SLOW)):
            known.heard_limit(LimitName("default", name), NamedLimit(1, limit))
        known.heard(MAIL, Regulation(1, limits=("fast", "slow")))
        self.lent = LentLimits(known, lambda _: self.hand, lambda: 0, lambda: 0)
        self.rates = LentRates(known, lambda _: 10, lambda: self.boot_ms)
        self.lent.on_want(lambda each: self.asked.append(("permits", each.limit)))
        self.rates.on_want(lambda each: self.asked.append(("tokens", each.limit)))
        self.limits = RuleLimits(known, lambda _: self.hand, lambda _: None, float, self.lent, self.rates)

    def allowed(self) -> Allowance:
        return self.limits.allow(MAIL, 10, NOW_MS)

    def lend(self, permits: int) -> None:
        borrowed = self.lent.of(labels("fast"))
        said = borrowed.state(1, Hands(0, 0, 0), 0)
        assert said is not None
        borrowed.granted(said.seq, 1, Grant(permits, permits, 1, 0))

    def hand_out(self, limit: str, tokens: int, after_ms: int = 0, again_ms: int = 0) -> None:
        self.rates.of(labels(limit)).granted(self.boot_ms, self.boot_ms, TokenGrant(tokens, after_ms, again_ms))


def test_permits_are_asked_for_first_then_tokens_of_the_lowest_rate() -> None:
    rig = Rig()
    assert rig.allowed() == Allowance(0, math.inf)
    assert rig.asked == [("permits", "fast")]
    rig.lend(2)
    rig.allowed()
    assert rig.asked[1:] == [("tokens", "slow")]
    rig.hand_out("slow", 1)
    rig.allowed()
    assert rig.asked[2:] == [("tokens", "fast")]
    rig.hand_out("fast", 3)
    assert rig.allowed().tasks == 1
    rig.limits.sent(Slice(MAIL, NOW_MS, 1, 1, 10, is_dry=False, is_all=False))
    assert (rig.rates.rate(labels("slow")).free(NOW_MS), rig.rates.rate(labels("fast")).free(NOW_MS)) == (0, 2)


def test_who_was_refused_asks_again_at_the_instant_that_it_was_told() -> None:
    rig = Rig()
    rig.lend(2)
    rig.hand_out("fast", 2)
    rig.hand_out("slow", 0, again_ms=700)
    assert rig.allowed() == Allowance(0, NOW_MS + 700)
    assert rig.asked == []
    assert rig.limits.held_back(MAIL, NOW_MS) == [HeldBack(NOW_MS + 700, "slow")]
    rig.boot_ms += 700
    rig.allowed()
    assert rig.asked == [("tokens", "slow")]


def test_a_bunch_that_begins_later_is_waited_for() -> None:
    rig = Rig()
    rig.lend(2)
    rig.hand_out("fast", 2)
    rig.hand_out("slow", 1, after_ms=150)
    assert rig.allowed() == Allowance(0, NOW_MS + 150)
    rig.boot_ms += 150
    assert rig.allowed().tasks == 1


def test_a_queue_that_wants_nothing_is_not_held_back() -> None:
    assert Rig().limits.held_back(MAIL, NOW_MS) == []


def test_an_instance_that_leaves_asks_for_nothing() -> None:
    rig = Rig()
    rig.lend(2)
    rig.rates.leave()
    rig.allowed()
    assert rig.asked == []
