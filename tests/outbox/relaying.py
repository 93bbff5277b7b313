"""A relay that runs while a test looks, and when it has nothing left to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.process.waiting import eventually
from timerd.outbox.ports import OutboxStore, Sending
from timerd.outbox.relay import Relay, RelayOptions
from timerd.sdk.values import instant_ms
from timerd.testing import Server

DAY_MS = 86_400_000
TIMEOUT_S = 30.0


def now_ms(server: Server) -> int:
    return instant_ms(server.now)


@asynccontextmanager
async def running(outbox: OutboxStore, sending: Sending, lease_s: float = 60.0) -> AsyncIterator[Relay]:
    relay = Relay(outbox, sending, RelayOptions(lease_s, 0.005))
    task = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        await relay.stop()
        await task


async def drained(outbox: OutboxStore) -> None:
    async def is_empty() -> bool:
        facts = await outbox.facts()
        return not facts.rows and not facts.sealed

    await eventually(is_empty, "the outbox is empty")
