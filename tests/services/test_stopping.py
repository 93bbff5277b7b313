"""The end of an instance: a step that never ends holds up none of those that come after it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from timerd.services.stopping import bounded


async def test_a_step_that_never_ends_is_left_behind_and_it_is_said_where_it_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    never = asyncio.Event()

    async def close_the_door() -> None:
        await never.wait()

    with caplog.at_level(logging.ERROR, logger="timerd.stopping"):
        await bounded(close_the_door(), limit_s=0.01)
    [record] = [record for record in caplog.records if record.name == "timerd.stopping"]
    assert "close_the_door" in record.getMessage()
    assert "Event.wait" in record.getMessage()


async def test_what_a_step_raises_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no door")

    with pytest.raises(ValueError, match="no door"):
        await bounded(fail())


async def test_who_is_cancelled_while_a_step_is_under_way_takes_it_along() -> None:
    ended: list[str] = []

    async def step() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("step")

    stopping = asyncio.create_task(bounded(step()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await asyncio.sleep(0)
    assert ended == ["step"]
