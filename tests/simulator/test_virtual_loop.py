"""The loop whose time leaps: it never waits, and says where a history would never end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from tests.simulator.virtual_loop import START_MS, Livelock, VirtualLoop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def test_an_hour_passes_at_once(loop: VirtualLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.now_ms == START_MS + 3_600_000


def test_who_asks_again_and_again_while_no_time_passes_is_stopped(loop: VirtualLoop) -> None:
    async def ask_again() -> None:
        for _ in count():
            await asyncio.sleep(0)

    asking = loop.create_task(ask_again())
    with pytest.raises(Livelock, match="no time passes"):
        loop.run_until_complete(asking)
    asking.cancel()
    loop.run_until_complete(asyncio.wait([asking]))


def test_who_asks_again_after_a_while_is_not(loop: VirtualLoop) -> None:
    async def ask_again() -> None:
        for _ in range(30_000):
            await asyncio.sleep(0.001)

    loop.run_until_complete(ask_again())
    assert loop.now_ms == START_MS + 30_000
