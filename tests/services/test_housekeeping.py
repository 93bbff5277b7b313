"""Housekeeping begins soon after the start: a server that is killed every minute forgets as well."""

from __future__ import annotations

import asyncio

import pytest

from timerd import bootstrap
from timerd.adapters.alarm import make_alarm
from timerd.adapters.clocks import SystemClock
from timerd.adapters.memory import MemoryStore
from timerd.services import housekeeping
from timerd.services import node as running
from timerd.testing.async_server import CONFIG

PATIENCE_S = 30.0


async def test_it_does_not_wait_for_its_first_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "FIRST_S", 0.0)
    node = await bootstrap.assemble(CONFIG, MemoryStore(), SystemClock(), make_alarm, "here")
    has_dropped = asyncio.Event()

    async def drop(_: int) -> None:
        has_dropped.set()

    monkeypatch.setattr(node.scheduler, "drop_expired", drop)
    await node.start()
    try:
        await asyncio.wait_for(has_dropped.wait(), PATIENCE_S)
        assert has_dropped.is_set()
    finally:
        await node.stop(0)


def test_the_first_time_is_well_before_the_second() -> None:
    assert 2 * housekeeping.FIRST_S < running.DROP_EVERY_S
