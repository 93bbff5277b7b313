"""A breaker: what opens it, what it lets go meanwhile, and what closes it again."""

from __future__ import annotations

import math

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation import AllRules, Breakers, BreakerState, Evidence, HeldBack, KnownRules, QueueBreaker, Why
from timerd.core.regulation.breaker import FIRST_PAUSE_MS, MOST_PAUSE_MS
from timerd.core.taken import QueueKey
from timerd.model.regulations import Regulation

CHARGES, FREE = QueueKey("default", "charges"), QueueKey("default", "free")
NOW_MS = 1_000_000
GOOD, BAD, NEITHER = Evidence.GOOD, Evidence.BAD, Evidence.NEITHER
CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def end(breaker: QueueBreaker, evidence: Evidence, tasks: int = 1, at_ms: int = NOW_MS) -> None:
    """They begin, and end a second later."""
    breaker.begun(tasks, at_ms)
    breaker.ended(evidence, tasks, at_ms, at_ms + 1_000)


def opened() -> tuple[QueueBreaker, int]:
    """And until when."""
    breaker = QueueBreaker("seed", NOW_MS - 1)
    end(breaker, BAD, 20)
    until_ms = breaker.until_ms(NOW_MS + 1_000)
    assert until_ms is not None
    return breaker, until_ms


def closed(breaker: QueueBreaker, at_ms: int) -> None:
    for n in range(3):
        assert breaker.room(at_ms + n).tasks == 1
        end(breaker, GOOD, 1, at_ms + n)


def test_half_of_twenty_within_half_a_minute_open_it() -> None:
    breaker = QueueBreaker("seed", NOW_MS - 1)
    end(breaker, GOOD, 10)
    end(breaker, BAD, 9)
    assert (breaker.state, breaker.room(NOW_MS).tasks) == (CLOSED, math.inf)
    end(breaker, NEITHER, 100)
    assert breaker.state is CLOSED
    end(breaker, BAD)
    assert (breaker.state, breaker.openings) == (OPEN, 1)
    room = breaker.room(NOW_MS + 1_000)
    assert room.tasks == 0
    assert NOW_MS + 1_000 + 0.9 * FIRST_PAUSE_MS <= room.next_ms <= NOW_MS + 1_000 + FIRST_PAUSE_MS


def test_what_ended_longer_ago_does_not_count() -> None:
    breaker = QueueBreaker("seed", NOW_MS - 1)
    end(breaker, BAD, 19)
    end(breaker, BAD, 19, NOW_MS + 30_000)
    assert breaker.state is CLOSED
    end(breaker, BAD, 1, NOW_MS + 30_000)
    assert breaker.state is OPEN


def test_one_is_tried_at_a_time_and_three_close_it() -> None:
    breaker, until_ms = opened()
    assert breaker.room(until_ms - 1).tasks == 0
    for n in range(3):
        assert (breaker.room(until_ms), breaker.state) == ((1, math.inf), HALF_OPEN)
        breaker.begun(1, until_ms + n)
        assert breaker.room(until_ms + n) == (0, math.inf)
        breaker.ended(GOOD, 1, until_ms + n, until_ms + n)
    assert breaker.state is CLOSED


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_five_minutes() -> None:
    breaker, until_ms = opened()
    for n in range(1, 10):
        end(breaker, BAD, 1, until_ms + (breaker.room(until_ms).tasks != 1))
        assert breaker.state is OPEN
        next_ms = breaker.until_ms(until_ms + 1_000)
        assert next_ms is not None
        pause_ms = min(FIRST_PAUSE_MS << n, MOST_PAUSE_MS)
        assert 0.9 * pause_ms <= next_ms - until_ms - 1_000 <= pause_ms
        until_ms = next_ms


def test_a_probe_that_says_nothing_makes_room_for_the_next() -> None:
    breaker, until_ms = opened()
    assert breaker.room(until_ms).tasks == 1
    end(breaker, NEITHER, 1, until_ms)
    assert (breaker.state, breaker.room(until_ms).tasks) == (HALF_OPEN, 1)


def test_what_was_sent_before_it_opened_decides_nothing() -> None:
    breaker = QueueBreaker("seed", NOW_MS - 1)
    breaker.begun(60, NOW_MS)
    breaker.ended(BAD, 20, NOW_MS, NOW_MS + 1_000)
    until_ms = breaker.until_ms(NOW_MS + 1_000)
    assert until_ms is not None
    assert breaker.room(until_ms).tasks == 1
    breaker.ended(GOOD, 20, NOW_MS, until_ms)
    assert (breaker.state, breaker.room(until_ms).tasks) == (HALF_OPEN, 1)
    breaker.begun(1, until_ms)
    breaker.ended(BAD, 20, NOW_MS, until_ms)
    assert (breaker.state, breaker.room(until_ms).tasks) == (HALF_OPEN, 0)


def test_closed_again_it_lets_twice_as_many_go_each_time() -> None:
    breaker, until_ms = opened()
    closed(breaker, until_ms)
    seen = []
    for n in range(9):
        seen.append(most := breaker.room(until_ms).tasks)
        end(breaker, GOOD, int(most), until_ms + 10 + n)
    assert seen == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert breaker.room(until_ms).tasks == math.inf


def test_two_instances_do_not_try_at_the_same_instant() -> None:
    untils = set()
    for seed in ("one", "two", "three"):
        breaker = QueueBreaker(seed, NOW_MS - 1)
        end(breaker, BAD, 20)
        untils.add(breaker.until_ms(NOW_MS + 1_000))
    assert len(untils) == 3


class Rig:
    def __init__(self) -> None:
        self.known, self.hand = KnownRules(), HandCount()
        self.known.read(AllRules(), self.known.life)
        self.known.heard(CHARGES, Regulation(1, breaker=True))
        self.woken: list[object] = []
        self.breakers = Breakers(self.known, lambda _: self.hand, self.woken.append, "here")

    def send(self, tasks: int, at_ms: int) -> int:
        allowed = self.breakers.allow(CHARGES, tasks, at_ms).tasks
        self.hand.begin(allowed, at_ms)
        self.breakers.sent(Slice(CHARGES, at_ms, allowed, 1, 1, is_dry=False, is_all=False))
        return allowed


def test_a_queue_without_one_has_none() -> None:
    rig = Rig()
    assert rig.breakers.allow(FREE, 7, NOW_MS) == Allowance(7, NOW_MS)
    assert rig.breakers.used() == {}


def test_who_waits_for_a_probe_is_woken_by_its_end() -> None:
    rig = Rig()
    rig.send(0, NOW_MS - 1)
    assert rig.send(20, NOW_MS) == 20
    rig.hand.end("failed", 20, NOW_MS, NOW_MS)
    state, until_ms = rig.breakers.state(CHARGES, NOW_MS)
    assert (state, until_ms is not None) == (OPEN, True)
    assert until_ms is not None
    assert rig.breakers.held_back(CHARGES, NOW_MS) == HeldBack(until_ms, "", Why.BREAKER)
    assert (rig.send(5, until_ms), rig.send(5, until_ms)) == (1, 0)
    assert rig.woken == []
    rig.hand.end("acked", 1, until_ms, until_ms)
    assert (rig.woken, rig.send(5, until_ms)) == ([(CHARGES,)], 1)


def test_a_queue_whose_breaker_is_taken_away_goes_on() -> None:
    rig = Rig()
    rig.send(0, NOW_MS - 1)
    rig.send(20, NOW_MS)
    rig.hand.end("timed_out", 20, NOW_MS, NOW_MS)
    rig.known.heard(CHARGES, Regulation(2))
    assert (rig.send(9, NOW_MS), rig.hand.watches, rig.breakers.held_back(CHARGES, NOW_MS)) == (9, (), None)
