"""Playing the blocks of a page one after the other, and the handlers that they register."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.docs import blocks
from tests.process.waiting import until
from timerd.client import SyncClient, Task, TaskState
from timerd.worker import Worker

ALIVE = {TaskState.PENDING, TaskState.IN_FLIGHT, TaskState.RETRYING}


def play(typed: list[str], address: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names that there are after all of these blocks, each of which printed what it says."""
    for block in typed:
        assert blocks.run(block, address, names) == blocks.expected(block), block
    return names


async def work(worker: Worker, is_done: Callable[[], bool]) -> None:
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(until, is_done, "the handlers are done")
    await worker.stop()
    await running


def states(client: SyncClient, queue: str) -> list[TaskState]:
    return [task.state for task in client.list(queue=queue)]


def are_acked(client: SyncClient, *tasks: Task) -> bool:
    return all(client.get(task.id).state is TaskState.ACKED for task in tasks)
