"""Tasks of the queues of a pool, and what a worker with one gets."""

from __future__ import annotations

from tests.services.raw_worker import RawWorker
from tests.unit.deliveries import NOW_MS, taken_of
from timerd.core.taken import Taken
from timerd.model.task import Template


def tasks(queue: str, indexes: range, *, waited_ms: int = 0, priority: int = 0) -> Taken:
    template = Template("default", queue, priority=priority)
    return taken_of(indexes, template, position_ms=NOW_MS - waited_ms, prefix=queue.ljust(12).encode())


async def delivered(worker: RawWorker, count: int) -> list[str]:
    """The queues of so many deliveries, one after the other."""
    found: list[str] = []
    while len(found) < count:
        message = await worker.deliver()
        found += [message.queue] * len(message.fire_at_ms)
    return found
