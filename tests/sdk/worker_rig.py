"""A worker of the SDK before a server that is made up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from timerd import Worker
from timerd.v1 import work_service_pb2 as wk

ACK, NACK, REJECT = wk.SETTLE_ACTION_ACK, wk.SETTLE_ACTION_NACK, wk.SETTLE_ACTION_REJECT


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    run = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.stop()
        await run
