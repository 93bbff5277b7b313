"""The worker: a process that notes when its handler is entered, and for which task. All reckoning comes afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from benchmarks.child import Answer, obey
from benchmarks.stats import summary
from timerd.worker import Delivery, Worker

CALLS_AT_ONCE = 1_000
# Handlers only append; how often is looked whether all are there costs them nothing.
LOOK_EVERY_S = 0.02


class Receiver:
    """One worker on one queue, with a handler for batches or one called for each task."""

    def __init__(self) -> None:
        self._worker = Worker()
        self._running: asyncio.Task[None] | None = None
        self._entered: list[tuple[int, list[Delivery]]] = []
        self._received = 0

    async def start(self, target: str, queue: str, batches: bool) -> Answer:
        self._worker = Worker(target)
        if batches:
            self._worker.on_batch(queue)(self._on_batch)
        else:
            self._worker.on(queue, concurrency=CALLS_AT_ONCE)(self._on_task)
        self._running = asyncio.create_task(self._worker.run())
        return {}

    async def stop(self) -> Answer:
        await self._worker.stop()
        if self._running is not None:
            await self._running
        return {}

    async def _on_batch(self, deliveries: list[Delivery]) -> None:
        self._entered.append((time.time_ns(), deliveries))
        self._received += len(deliveries)

    async def _on_task(self, delivery: Delivery) -> None:
        self._entered.append((time.time_ns(), [delivery]))
        self._received += 1

    async def collect(self, count: int, patience_s: float) -> Answer:
        """Waits for so many deliveries, or until nothing has come for a while, and forgets them."""
        seen, heard_s = -1, time.monotonic()
        while self._received < count and time.monotonic() < heard_s + patience_s:
            if self._received != seen:
                seen, heard_s = self._received, time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
        entered, self._entered, self._received = self._entered, [], 0
        return _summary(entered)


def _numbers(entered: list[tuple[int, list[Delivery]]]) -> Iterator[int]:
    return (int.from_bytes(delivery.payload[:8]) for _, deliveries in entered for delivery in deliveries)


def _summary(entered: list[tuple[int, list[Delivery]]]) -> Answer:
    late_ms = (at_ns / 1e6 - delivery.fire_at_ms for at_ns, batch in entered for delivery in batch)
    return summary(late_ms, _numbers(entered))


async def main() -> None:
    receiver = Receiver()
    await obey({verb: getattr(receiver, verb) for verb in ("start", "stop", "collect")})


if __name__ == "__main__":
    asyncio.run(main())
