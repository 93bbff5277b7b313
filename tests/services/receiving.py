"""Who waits in a call of Receive, and whose tasks these are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from timerd.core.cluster.placement import holder_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.testing import Server
from timerd.testing.async_server import START


async def until_workers(server: Server, count: int) -> None:
    while server.node.delivery.workers != count:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.001)


def bucket_of_b() -> datetime:
    """The beginning of a bucket that b holds."""
    bucket_ms = bucket_of(int(START.timestamp() * 1000))
    while holder_of(Partition(TIME_SCOPE, bucket_ms, 0), "abc") != "b":
        bucket_ms += BUCKET_MS
    return datetime.fromtimestamp(bucket_ms / 1000, UTC)
