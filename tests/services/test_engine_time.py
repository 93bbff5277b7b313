"""Engine time as the services ask for it: rounded so that nothing is early, and silent where it is not trusted."""

from __future__ import annotations

import asyncio

import pytest

from timerd.core.cluster.lease_trust import MARGIN_MS, LeaseTrust
from timerd.model.errors import Unavailable
from timerd.services.holding.engine_time import EngineTime, StoreTime

HOUR_MS = 3_600_000.0


class TwoClocks:
    """A wall clock that is stepped by the test, and one that counts on."""

    def __init__(self) -> None:
        self.wall, self.boot = 1_800_000_000_000.0, 5_000.0

    def wall_ms(self) -> float:
        return self.wall

    def boot_ms(self) -> float:
        return self.boot

    def run(self, ms: float) -> None:
        self.wall += ms
        self.boot += ms


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.999])
def test_a_millisecond_that_has_begun_has_not_come(fraction: float) -> None:
    clock = TwoClocks()
    time = EngineTime(clock, LeaseTrust.always())
    clock.run(7 + fraction)
    assert time.firing_ms() == 1_800_000_000_007
    assert time.accepting_ms() == 1_800_000_000_007


@pytest.mark.parametrize("step_ms", [-3_600_000.0, -101.0, 101.0, 3_600_000.0])
def test_after_a_step_of_the_wall_clock_nothing_fires_and_nothing_is_taken_in(step_ms: float) -> None:
    clock = TwoClocks()
    time = EngineTime(clock, LeaseTrust.always())
    clock.run(1)
    clock.wall += step_ms
    assert time.firing_ms() is None
    with pytest.raises(Unavailable, match=f"jumped by {step_ms:.0f} ms"):
        time.accepting_ms()
    assert int(time.exact_ms()) == 1_800_000_000_001


def test_without_a_lease_nothing_fires() -> None:
    clock = TwoClocks()
    trust = LeaseTrust(ttl_ms=10_000)
    time = EngineTime(clock, trust)
    assert time.firing_ms() is None
    trust.heartbeat(clock.boot)
    assert time.firing_ms() is not None
    clock.run(10_000 - MARGIN_MS)
    assert time.firing_ms() is None


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
def test_a_store_is_not_misled_by_a_clock_that_goes_there_and_back(step_ms: float) -> None:
    clock = TwoClocks()
    time = StoreTime(clock)
    for passed, step in enumerate((step_ms, -step_ms), start=1):
        clock.run(1_000)
        clock.wall += step
        clock.run(1_000)
        assert time.now_ms() == 1_800_000_000_000 + 2_000 * passed


async def test_a_store_that_nobody_asks_has_the_time_of_its_server_when_that_takes_calls_again() -> None:
    """The clock was set three days ahead, for good."""
    clock, stable_ms = TwoClocks(), 40.0
    stored, time = StoreTime.followed(clock, stable_ms), EngineTime(clock, LeaseTrust.always(), stable_ms)
    await asyncio.sleep(0)
    clock.wall += 72 * HOUR_MS
    while time.firing_ms() is None:
        clock.run(1)
        # As long as it looks away, and a little more.
        await asyncio.sleep(0.012)
    assert stored.now_ms() == time.firing_ms() == int(clock.wall)


def test_a_store_follows_a_clock_that_was_set_right() -> None:
    clock = TwoClocks()
    time = StoreTime(clock)
    clock.wall += HOUR_MS
    for _ in range(40):
        clock.run(1_000)
        time.now_ms()
    assert time.now_ms() == clock.wall
