"""What waits for one worker is bounded in messages as well: a stream takes one write at a time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from timerd.services.work.work_stream import MOST_MESSAGES, WorkStream
from timerd.v1 import work_service_pb2 as pb


class SlowReader:
    """Reads a message when it is told to."""

    def __init__(self) -> None:
        self.may_read = asyncio.Semaphore(0)

    async def write(self, _: pb.WorkResponse) -> None:
        await self.may_read.acquire()


async def test_a_worker_that_reads_slowly_gets_few_messages_and_room_when_it_has_read_some() -> None:
    reader, room = SlowReader(), list[int]()
    stream = WorkStream(cast(Any, reader), 7, lambda: 1 << 20, room.append)
    writing = asyncio.create_task(stream.write_all())
    blocked = []
    for _ in range(MOST_MESSAGES):
        stream.push(pb.WorkResponse(), 1)
        blocked.append(stream.block_if_full())
    assert blocked == [False] * (MOST_MESSAGES - 1) + [True]
    assert not stream.block_if_full(), "it is said once"
    await asyncio.sleep(0)
    assert room == []
    for _ in range(MOST_MESSAGES):
        reader.may_read.release()
        for _ in range(3):
            await asyncio.sleep(0)
    assert room == [7]
    stream.close()
    await writing
