from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from timerd.adapters.alarm import Alarm, LoopAlarm, TimerfdAlarm, make_alarm


def clock_ms() -> float:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


def timerfd_or_skip(now_ms: Callable[[], float]) -> Alarm:
    try:
        return TimerfdAlarm(now_ms)
    except OSError as error:
        pytest.skip(f"no timerfd here: {error}")


@pytest.mark.parametrize("make", [timerfd_or_skip, LoopAlarm, make_alarm])
async def test_it_rings_once_and_never_early(make: Callable[[Callable[[], float]], Alarm]) -> None:
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
    await asyncio.sleep(0.01)
    assert rang.empty()
