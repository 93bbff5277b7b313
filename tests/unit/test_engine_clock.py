"""Engine time follows the wall slowly, stops when it jumps, and never goes back."""

from __future__ import annotations

import pytest

from timerd.core.cluster.engine_clock import SLEW, STABLE_MS, EngineClock

WALL_MS = 1_800_000_000_000.0


class Clocks:
    """Both clocks, and an engine that sees them every 100 ms."""

    def __init__(self) -> None:
        self.boot_ms = 5_000.0
        self.ahead_ms = WALL_MS - self.boot_ms
        self.engine = EngineClock.anchored(self.wall_ms, self.boot_ms)
        self.latest_ms = self.now_ms

    @property
    def wall_ms(self) -> float:
        return self.boot_ms + self.ahead_ms

    @property
    def now_ms(self) -> float:
        return self.engine.now_ms(self.boot_ms)

    def is_trusted(self) -> bool:
        return self.engine.trusted

    def run(self, ms: float) -> None:
        end_ms = self.boot_ms + ms
        while self.boot_ms < end_ms:
            self.boot_ms = min(end_ms, self.boot_ms + 100)
            self.engine.observe(self.wall_ms, self.boot_ms)
            assert self.now_ms >= self.latest_ms
            self.latest_ms = self.now_ms


def test_a_small_difference_is_slewed_away() -> None:
    clocks = Clocks()
    clocks.ahead_ms += 50
    clocks.run(10_000)
    assert clocks.now_ms - clocks.wall_ms == pytest.approx(-50 + 10_000 * SLEW, abs=0.1)
    clocks.run(100_000)
    assert clocks.now_ms == pytest.approx(clocks.wall_ms)
    assert clocks.is_trusted()


def test_slewing_down_never_goes_back() -> None:
    clocks = Clocks()
    clocks.ahead_ms -= 90
    clocks.run(200_000)
    assert clocks.now_ms == pytest.approx(clocks.wall_ms)


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000, 101, -101])
def test_a_step_stops_it_at_once(step_ms: float) -> None:
    clocks = Clocks()
    clocks.ahead_ms += step_ms
    clocks.run(1)
    assert not clocks.is_trusted()
    assert clocks.engine.difference_ms == pytest.approx(step_ms, abs=1)


def test_a_step_forward_is_believed_after_it_was_stable() -> None:
    clocks = Clocks()
    clocks.ahead_ms += 3_600_000
    clocks.run(STABLE_MS)
    assert not clocks.is_trusted()
    clocks.run(200)
    assert clocks.is_trusted()
    assert clocks.now_ms == clocks.wall_ms


def test_after_a_step_back_it_stands_still_until_the_wall_has_caught_up() -> None:
    clocks = Clocks()
    clocks.ahead_ms -= 60_000
    clocks.run(STABLE_MS + 200)
    held_ms = clocks.now_ms
    clocks.run(50_000)
    assert clocks.now_ms == held_ms
    assert not clocks.is_trusted()
    clocks.run(10_500)
    assert clocks.is_trusted()
    assert clocks.now_ms == pytest.approx(clocks.wall_ms)


def test_a_wall_that_comes_back_is_trusted_without_waiting() -> None:
    clocks = Clocks()
    clocks.ahead_ms += 5_000
    clocks.run(1_000)
    clocks.ahead_ms -= 5_000
    clocks.run(300)
    assert clocks.is_trusted()
    assert clocks.now_ms == pytest.approx(clocks.wall_ms)


def test_an_unsteady_wall_starts_the_wait_again() -> None:
    clocks = Clocks()
    clocks.ahead_ms += 5_000
    clocks.run(STABLE_MS - 1_000)
    clocks.ahead_ms += 500
    clocks.run(STABLE_MS - 1_000)
    assert not clocks.is_trusted()
    clocks.run(1_500)
    assert clocks.is_trusted()


def test_how_long_it_must_be_stable_is_a_setting() -> None:
    clocks = Clocks()
    clocks.engine = EngineClock.anchored(clocks.wall_ms, clocks.boot_ms, stable_ms=2_000)
    clocks.ahead_ms += 5_000
    clocks.run(2_000)
    assert not clocks.is_trusted()
    clocks.run(200)
    assert clocks.is_trusted()
