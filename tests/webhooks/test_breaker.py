"""When a target is left in peace, and how it is tried again."""

from __future__ import annotations

import math

from timerd.core.sinks.breaker import (
    FAILURES,
    FIRST_PAUSE_MS,
    MOST_PAUSE_MS,
    MOST_THROTTLED_MS,
    Breaker,
    TargetHealth,
    TargetState,
)

HEALTHY, FAILING, THROTTLING, GONE = TargetHealth
MOST = 10


def failed(now_ms: int = 0) -> Breaker:
    """Open, since `now_ms`."""
    breaker = Breaker(MOST)
    for _ in range(FAILURES):
        breaker.heard(FAILING, None, now_ms)
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(MOST)
    for _ in range(3):
        for _ in range(FAILURES - 1):
            breaker.heard(FAILING, None, 0)
        breaker.heard(HEALTHY, None, 0)
    assert (breaker.state, breaker.room(0)) == (TargetState.OK, (MOST, math.inf))
    breaker = failed(7)
    assert (breaker.state, breaker.room(7)) == (TargetState.OPEN, (0, 7 + FIRST_PAUSE_MS))


def test_one_is_tried_after_the_pause_and_a_success_lets_all_go() -> None:
    breaker = failed()
    assert breaker.room(FIRST_PAUSE_MS - 1).most == 0
    assert breaker.room(FIRST_PAUSE_MS) == (1, math.inf)
    breaker.heard(HEALTHY, None, FIRST_PAUSE_MS)
    assert (breaker.state, breaker.room(FIRST_PAUSE_MS).most) == (TargetState.OK, MOST)


def test_pauses_double_up_to_a_bound() -> None:
    breaker, now_ms, pauses = failed(), 0, []
    for _ in range(40):
        next_ms = int(breaker.room(now_ms).next_ms)
        pauses.append(next_ms - now_ms)
        now_ms = next_ms
        breaker.heard(FAILING, None, now_ms)
    assert pauses[:4] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS, 8 * FIRST_PAUSE_MS]
    assert pauses == sorted(pauses)
    assert pauses[-1] == MOST_PAUSE_MS
    # In an hour, one that hangs for 15 s each time.
    assert 3_600_000 / (MOST_PAUSE_MS + 15_000) <= 15


def test_those_that_were_under_way_when_it_opened_do_not_lengthen_the_pause() -> None:
    breaker = failed()
    for _ in range(MOST):
        breaker.heard(FAILING, None, FIRST_PAUSE_MS - 1)
    assert breaker.room(FIRST_PAUSE_MS).most == 1


def test_a_pause_that_was_asked_for_is_kept() -> None:
    breaker = Breaker(MOST)
    breaker.heard(THROTTLING, 60_000, 0)
    assert (breaker.state, breaker.room(0)) == (TargetState.THROTTLED, (0, 60_000))
    # One that was under way ends well, another one asks for less.
    breaker.heard(HEALTHY, None, 10)
    breaker.heard(THROTTLING, 1_000, 20)
    assert breaker.room(59_999).most == 0
    assert breaker.room(60_000).most == 1
    breaker.heard(HEALTHY, None, 60_000)
    assert (breaker.state, breaker.room(60_000).most) == (TargetState.OK, MOST)


def test_who_asks_for_a_pause_of_no_time_gets_a_short_one() -> None:
    breaker = Breaker(MOST)
    breaker.heard(THROTTLING, 0, 0)
    assert breaker.room(0) == (0, FIRST_PAUSE_MS)


def test_who_asks_for_pauses_all_day_is_failing() -> None:
    breaker = Breaker(MOST)
    assert not breaker.is_throttled_too_long(MOST_THROTTLED_MS)
    breaker.heard(THROTTLING, 60_000, 5)
    breaker.heard(THROTTLING, 60_000, MOST_THROTTLED_MS)
    assert not breaker.is_throttled_too_long(MOST_THROTTLED_MS + 4)
    assert breaker.is_throttled_too_long(MOST_THROTTLED_MS + 5)
    breaker.heard(HEALTHY, None, MOST_THROTTLED_MS + 60_005)
    assert not breaker.is_throttled_too_long(2 * MOST_THROTTLED_MS)


def test_one_that_is_gone_stays_gone() -> None:
    breaker = Breaker(MOST)
    breaker.heard(GONE, None, 0)
    for health in TargetHealth:
        breaker.heard(health, 0, 1)
    assert (breaker.state, breaker.room(10**12)) == (TargetState.PAUSED, (0, math.inf))
