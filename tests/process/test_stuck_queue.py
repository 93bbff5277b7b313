"""A queue that nobody works: it costs little memory, holds nobody back, and gives everything once a worker comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tests.process.children import Server
from tests.process.waiting import eventually
from timerd.client import Client
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.process
STUCK = 50_000
OTHER = 600
PAYLOAD_BYTES = 200
# Of 50,000 tasks of 200 bytes, which would take 10 MB for the payloads alone.
MOST_MEMORY_BYTES = 4 << 20
MOST_LOADED = STUCK // 4


class Received:
    """What a worker of one queue got, in the order of arrival."""

    def __init__(self, target: str, queue: str) -> None:
        self.numbers: list[int] = []
        self.fire_at_ms: list[int] = []
        self.attempts: set[int] = set()
        self._worker = Worker(target)
        self._worker.on_batch(queue, max_size=1000)(self._note)
        self._running = asyncio.create_task(self._worker.run())

    async def _note(self, batch: Sequence[Delivery]) -> None:
        for each in batch:
            self.numbers.append(int(each.payload))
            self.fire_at_ms.append(each.fire_at_ms)
            self.attempts.add(each.attempt)

    async def grows(self, seen: int, most: int) -> bool:
        return await self.has(min(most, seen + 50))

    async def has(self, count: int) -> bool:
        if self._running.done():
            self._running.result()
        return len(self.numbers) >= count

    async def stop(self) -> None:
        await self._worker.stop()
        await self._running


def payload(number: int) -> bytes:
    return b"%0*d" % (PAYLOAD_BYTES, number)


async def test_a_stuck_queue_costs_no_memory_holds_nobody_back_and_is_delivered_in_order(server: Server) -> None:
    async with Client(server.address, timeout=60) as client:
        # What is due before it is taken in goes behind what is due then.
        base = datetime.now(UTC) + timedelta(seconds=6)
        # 50 a millisecond: order among those of one instant is not promised.
        late = [(payload(number), base + timedelta(milliseconds=number // 50)) for number in range(STUCK)]
        await client.schedule_many("stuck", late)
        other = Received(server.address, "other")
        start = base + timedelta(seconds=1, milliseconds=100)
        await client.schedule_many(
            "other", [(payload(number), start + timedelta(milliseconds=5 * number)) for number in range(OTHER)]
        )
        loaded, memory_bytes = [], []
        while not await other.has(OTHER):
            info = await client.server_info()
            loaded.append(info.loaded)
            memory_bytes.append(info.memory_used_bytes)
            await eventually(partial(other.grows, len(other.numbers), OTHER), "the other queue moves on")
        assert datetime.now(UTC) > base + timedelta(seconds=1), "the stuck tasks were not due while it was measured"
        assert max(memory_bytes) < MOST_MEMORY_BYTES, memory_bytes
        assert max(loaded) < MOST_LOADED, loaded
        worker = Received(server.address, "stuck")
        await eventually(lambda: worker.has(STUCK), "the worker has received everything")
        await worker.stop()
        await other.stop()
        assert sorted(worker.numbers) == list(range(STUCK))
        assert worker.fire_at_ms == sorted(worker.fire_at_ms)
        assert other.numbers == list(range(OTHER))
        assert (worker.attempts, other.attempts) == ({1}, {1})
        in_flight = (await client.server_info()).in_flight
        assert in_flight == 0
