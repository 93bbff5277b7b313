from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from timerd.adapters.alarm import AnyAlarm, LoopAlarm, TimerfdAlarm, make_alarm, wait_of


def clock_ms() -> float:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


def timerfd_or_skip(now_ms: Callable[[], float]) -> AnyAlarm:
    try:
        return TimerfdAlarm(now_ms)
    except OSError as error:
        pytest.skip(f"no timerfd here: {error}")


async def test_a_clock_that_is_slewed_meanwhile_is_no_reason_to_be_early() -> None:
    start_ms = clock_ms()

    def slow_ms() -> float:
        return start_ms + (clock_ms() - start_ms) * 0.5

    alarm = make_alarm(slow_ms)
    rang = asyncio.Event()
    at_ms = start_ms + 40
    alarm.listen(rang.set)
    alarm.set(at_ms)
    await asyncio.wait_for(rang.wait(), 5)
    assert slow_ms() >= at_ms
    alarm.close()


@pytest.mark.parametrize(("left_ms", "expected_ms"), [(-3.0, -3.0), (5.0, 5.0), (1_000.0, 990.0), (3.6e6, 3.564e6)])
def test_a_long_sleep_is_cut_short(left_ms: float, expected_ms: float) -> None:
    assert wait_of(left_ms) == pytest.approx(expected_ms)


@pytest.mark.parametrize("make", [timerfd_or_skip, LoopAlarm, make_alarm])
async def test_it_rings_once_and_never_early(make: Callable[[Callable[[], float]], AnyAlarm]) -> None:
    alarm = make(clock_ms)
    rang: asyncio.Queue[float] = asyncio.Queue()
    alarm.listen(lambda: rang.put_nowait(clock_ms()))
    for wait_ms in (3.3, 0.2, -5.0):
        at_ms = clock_ms() + wait_ms
        alarm.set(at_ms)
        alarm.set(at_ms)
        assert await asyncio.wait_for(rang.get(), 5) >= at_ms
    alarm.set(clock_ms() + 60_000)
    alarm.set(clock_ms() + 1)
    await asyncio.wait_for(rang.get(), 5)
    alarm.set(clock_ms() + 1)
    alarm.close()
    alarm.set(clock_ms() + 1)
    await asyncio.sleep(0.01)
    assert rang.empty()


@pytest.mark.parametrize("make", [timerfd_or_skip, LoopAlarm])
async def test_it_looks_at_the_clock_before_it_rings(make: Callable[[Callable[[], float]], AnyAlarm]) -> None:
    """The timer has run down each time, engine time has not."""
    times_ms, looks_ms = iter([0.0, 0.4, 0.4, 0.9, 0.9, 1.0]), [0.0]
    rang: asyncio.Queue[float] = asyncio.Queue()

    def now_ms() -> float:
        looks_ms.append(next(times_ms))
        return looks_ms[-1]

    alarm = make(now_ms)
    alarm.listen(lambda: rang.put_nowait(looks_ms[-1]))
    alarm.set(1.0)
    assert await asyncio.wait_for(rang.get(), 5) == 1.0
    alarm.close()


async def test_a_system_that_slept_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's timers stood still meanwhile."""
    monkeypatch.setattr("timerd.adapters.alarm._LOOK_EVERY_MS", 10.0)
    now_ms = 0.0
    alarm, rang = LoopAlarm(lambda: now_ms), asyncio.Event()
    alarm.listen(rang.set)
    alarm.set(3_600_000.0)
    await asyncio.sleep(0.03)
    assert not rang.is_set()
    now_ms = 3_600_000.0
    await asyncio.wait_for(rang.wait(), 20)


async def test_what_is_set_already_rings_all_the_same() -> None:
    """Once for each time that it has rung, whatever was set in between."""
    alarm = timerfd_or_skip(clock_ms)
    rang: asyncio.Queue[float] = asyncio.Queue()
    alarm.listen(lambda: rang.put_nowait(clock_ms()))
    soon_ms, later_ms = clock_ms() + 40, clock_ms() + 60_000
    for at_ms in (soon_ms, soon_ms, later_ms, later_ms, soon_ms, soon_ms):
        alarm.set(at_ms)
    assert await asyncio.wait_for(rang.get(), 5) >= soon_ms
    for _ in range(3):
        alarm.set(soon_ms)
        assert await asyncio.wait_for(rang.get(), 5) >= soon_ms
    alarm.close()
