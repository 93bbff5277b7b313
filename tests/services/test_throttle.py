"""The rate at which missed buckets are loaded: so many rows a second, whoever asks."""

from __future__ import annotations

import asyncio

import pytest

from timerd.services.holding.throttle import Throttle


async def test_rows_are_spread_over_the_time_that_they_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, pauses_s = [100.0], []

    async def pause(pause_s: float) -> None:
        pauses_s.append(round(pause_s, 6))

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s[0])
    monkeypatch.setattr(asyncio, "sleep", pause)
    throttle = Throttle(rows_per_s=1_000)
    await throttle.wait(500)
    await throttle.wait(2_000)
    now_s[0] += 1
    await throttle.wait(100)
    now_s[0] += 60
    await throttle.wait(100)
    assert pauses_s == [0.5, 2.5, 1.6, 0.1]
