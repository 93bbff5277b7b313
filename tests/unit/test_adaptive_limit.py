"""An adaptive limit: what raises it, what lowers it, and what says nothing. Time is turned."""

from __future__ import annotations

import math

import pytest

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation import AdaptiveLimit, AdaptiveLimits, AllRules, HeldBack, KnownRules, Sign, Why
from timerd.core.regulation.adaptive_limit import LEAST_SUCCESSES
from timerd.core.taken import QueueKey
from timerd.model.regulations import AdaptiveRules, Regulation

EXPORTS, FREE = QueueKey("default", "exports"), QueueKey("default", "free")
NOW_MS = 1_000_000
RULES = AdaptiveRules(floor=2, ceiling=100)
GOOD, FAILED, TOO_MUCH, NOTHING = Sign.GOOD, Sign.FAILED, Sign.TOO_MUCH, Sign.NOTHING


def limit_of(tasks: int, rules: AdaptiveRules = RULES) -> AdaptiveLimit:
    """One that has come so far."""
    limit = AdaptiveLimit(rules, NOW_MS - 1)
    limit.tasks = tasks
    return limit


def window(limit: AdaptiveLimit, *, used: int | None = None, sent_ms: int = NOW_MS, took_ms: int = 100) -> None:
    """As many are good as make one."""
    limit.begun(limit.tasks if used is None else used)
    for _ in range(max(limit.tasks, LEAST_SUCCESSES)):
        limit.ended(GOOD, 1, sent_ms, sent_ms + took_ms)


def test_it_begins_at_its_floor_and_one_more_goes_after_each_good_window() -> None:
    limit = AdaptiveLimit(RULES, NOW_MS - 1)
    assert (limit.tasks, limit.room(0), limit.room(1), limit.room(5)) == (2, 2, 1, 0)
    for tasks in (3, 4, 5):
        window(limit)
        assert limit.tasks == tasks


def test_a_window_has_as_many_successes_as_may_be_in_hand() -> None:
    limit = limit_of(20)
    limit.begun(20)
    limit.ended(GOOD, 19, NOW_MS, NOW_MS + 1)
    assert limit.tasks == 20
    limit.ended(GOOD, 1, NOW_MS, NOW_MS + 1)
    assert limit.tasks == 21


def test_it_never_goes_beyond_its_ceiling_nor_below_its_floor() -> None:
    limit = limit_of(100)
    window(limit)
    assert limit.tasks == 100
    for n in range(20):
        limit.ended(TOO_MUCH, 1, NOW_MS + n, NOW_MS + n)
    assert limit.tasks == 2


@pytest.mark.parametrize(("used", "tasks"), [(7, 10), (8, 11)])
def test_what_is_not_used_raises_nothing(used: int, tasks: int) -> None:
    """Four in five have to be in hand at some moment of the window."""
    limit = limit_of(10)
    window(limit, used=used)
    assert limit.tasks == tasks


def test_what_was_used_in_the_window_before_does_not_count() -> None:
    limit = limit_of(10)
    window(limit)
    window(limit, used=1)
    assert limit.tasks == 11


def test_one_overload_is_one_step_down() -> None:
    """What was sent before the step was sent into the same one, however late it ends."""
    limit = limit_of(100)
    for n in range(50):
        limit.ended(TOO_MUCH, 1, NOW_MS, NOW_MS + 10 + n)
    assert (limit.tasks, limit.decreases) == (70, 1)
    limit.ended(TOO_MUCH, 1, NOW_MS + 11, NOW_MS + 70)
    assert (limit.tasks, limit.decreases) == (49, 2)


def test_successes_of_before_a_step_make_no_window_after_it() -> None:
    limit = limit_of(10)
    limit.begun(10)
    limit.ended(GOOD, 9, NOW_MS, NOW_MS + 5)
    limit.ended(TOO_MUCH, 1, NOW_MS, NOW_MS + 5)
    limit.begun(7)
    limit.ended(GOOD, 10, NOW_MS, NOW_MS + 6)
    limit.ended(GOOD, 9, NOW_MS + 6, NOW_MS + 7)
    assert limit.tasks == 7
    limit.ended(GOOD, 1, NOW_MS + 6, NOW_MS + 7)
    assert limit.tasks == 8


@pytest.mark.parametrize(("slow", "tasks"), [(1, 11), (2, 7)])
def test_more_than_one_in_ten_beyond_the_target_are_too_many(slow: int, tasks: int) -> None:
    limit = limit_of(10, AdaptiveRules(2, 100, target_ms=1_000))
    limit.begun(10)
    for n in range(10):
        limit.ended(GOOD, 1, NOW_MS, NOW_MS + (1_001 if n < slow else 1_000))
    assert limit.tasks == tasks


def test_without_a_target_it_matters_to_nobody_how_long_they_take() -> None:
    limit = limit_of(10)
    window(limit, took_ms=3_600_000)
    assert limit.tasks == 11


def test_failures_say_how_long_they_took_and_no_more() -> None:
    limit, timed = limit_of(10), limit_of(10, AdaptiveRules(2, 100, target_ms=1_000))
    for each in (limit, timed):
        each.begun(10)
        for _ in range(20):
            each.ended(FAILED, 1, NOW_MS, NOW_MS + 5_000)
    assert (limit.tasks, timed.tasks) == (10, 7)
    limit.ended(NOTHING, 100, NOW_MS, NOW_MS)
    assert limit.tasks == 10


def test_other_bounds_hold_at_once() -> None:
    limit = limit_of(50)
    limit.go_by(AdaptiveRules(2, 20))
    assert limit.tasks == 20
    limit.go_by(AdaptiveRules(30, 60))
    assert limit.tasks == 30


def test_it_settles_near_what_a_target_bears() -> None:
    """A target that bears 40 at a time: whoever comes beyond that is told to wait."""
    limit, at_ms, seen = AdaptiveLimit(RULES, NOW_MS - 1), NOW_MS, list[int]()
    for _ in range(400):
        sent = limit.room(0)
        limit.begun(sent)
        if sent > 40:
            limit.ended(TOO_MUCH, sent - 40, at_ms, at_ms + 100)
        limit.ended(GOOD, min(sent, 40), at_ms, at_ms + 100)
        at_ms += 101
        seen.append(limit.tasks)
    assert min(seen[-200:]) >= 28
    assert max(seen[-200:]) == 41


class Rig:
    def __init__(self) -> None:
        self.known, self.hand = KnownRules(), HandCount()
        self.known.read(AllRules(), self.known.life)
        self.known.heard(EXPORTS, Regulation(1, adaptive=RULES))
        self.woken: list[object] = []
        self.limits = AdaptiveLimits(self.known, lambda _: self.hand, self.woken.append)

    def send(self, tasks: int, at_ms: int = NOW_MS) -> int:
        allowed = self.limits.allow(EXPORTS, tasks, at_ms).tasks
        if allowed:
            self.hand.begin(allowed, at_ms)
            self.limits.sent(Slice(EXPORTS, at_ms, allowed, 1, 1, is_dry=False, is_all=False))
        return allowed


def test_a_queue_without_one_has_none() -> None:
    rig = Rig()
    assert rig.limits.allow(FREE, 7, NOW_MS) == Allowance(7, NOW_MS)
    assert (rig.limits.used(), rig.limits.tasks(FREE), rig.limits.held_back(FREE, NOW_MS)) == ({}, None, None)


def test_who_waits_is_woken_when_one_has_ended() -> None:
    rig = Rig()
    assert (rig.send(5), rig.limits.allow(EXPORTS, 5, NOW_MS)) == (2, Allowance(0, math.inf))
    assert rig.limits.held_back(EXPORTS, NOW_MS) == HeldBack(math.inf, "", Why.ADAPTIVE)
    rig.hand.end("acked", 1, NOW_MS, NOW_MS + 5)
    assert (rig.woken, rig.send(5, NOW_MS + 5)) == ([(EXPORTS,)], 1)


@pytest.mark.parametrize(("outcome", "tasks"), [("throttled", 7), ("timed_out", 7), ("failed", 10), ("lost", 10)])
def test_it_hears_how_attempts_have_ended(outcome: str, tasks: int) -> None:
    rig = Rig()
    rig.send(1)
    rig.limits.used()[EXPORTS].tasks = 10
    rig.hand.end(outcome, 1, NOW_MS, NOW_MS + 1)
    assert rig.limits.tasks(EXPORTS) == tasks


def test_a_queue_whose_limit_is_taken_away_goes_on() -> None:
    rig = Rig()
    rig.send(2)
    rig.known.heard(EXPORTS, Regulation(2))
    assert (rig.send(9), rig.hand.watches, rig.limits.held_back(EXPORTS, NOW_MS)) == (9, (), None)


def test_a_breaker_and_an_adaptive_limit_both_hear() -> None:
    rig, other = Rig(), Rig()
    rig.send(1)
    other.hand = rig.hand
    other.send(1)
    assert len(rig.hand.watches) == 2
    rig.known.heard(EXPORTS, Regulation(2))
    rig.send(1)
    assert len(rig.hand.watches) == 1


def test_rules_are_stored_with_what_a_later_release_has_added_left_alone() -> None:
    stored = Regulation(3, adaptive=AdaptiveRules(2, 100, 5)).to_bytes()
    assert Regulation.from_bytes(stored).adaptive == AdaptiveRules(2, 100, 5)
    assert b'"adaptive":[2,100,5]' in stored
    assert Regulation.from_bytes(stored.replace(b"[2,100,5]", b"[2,100,5,9]")).adaptive == AdaptiveRules(2, 100, 5)
    assert b"adaptive" not in Regulation(3).to_bytes()
