"""What waits for one worker is bounded in messages as well: a stream takes one write at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from timerd.services.work.work_stream import MOST_MESSAGES, WorkStream
from timerd.v1 import work_service_pb2 as pb


class SlowReader:
    """Reads a message when it is told to."""

    def __init__(self) -> None:
        self.may_read = asyncio.Semaphore(0)

    async def write(self, _: pb.WorkResponse) -> None:
        await self.may_read.acquire()


@dataclass
class RoomFor:
    """Implements services.work.work_stream.Flow. `rooms` gets the numbers of streams that have room again."""

    queues: int
    rooms: list[int]
    secret = b"secret"

    def next_number(self) -> int:
        return 7

    def queue_count(self, _: int) -> int:
        return self.queues

    def stream_bytes(self) -> int:
        return 1 << 20

    def room(self, number: int) -> None:
        self.rooms.append(number)


@pytest.mark.parametrize(("queues", "most"), [(1, MOST_MESSAGES), (20, MOST_MESSAGES), (1_000, 125)])
async def test_a_worker_that_reads_slowly_gets_few_messages_and_room_when_it_has_read_some(
    queues: int, most: int
) -> None:
    """More where it serves so many queues that to block and unblock it costs more than a message."""
    reader, room = SlowReader(), list[int]()
    stream = WorkStream(cast(Any, reader), RoomFor(queues, room))
    writing = asyncio.create_task(stream.write_all())
    blocked = []
    for _ in range(most):
        stream.push(pb.WorkResponse(), 1)
        blocked.append(stream.block_if_full())
    assert blocked == [False] * (most - 1) + [True]
    assert not stream.block_if_full(), "it is said once"
    await asyncio.sleep(0)
    assert room == []
    for _ in range(most):
        reader.may_read.release()
        for _ in range(3):
            await asyncio.sleep(0)
    assert room == [7]
    stream.close()
    await writing
