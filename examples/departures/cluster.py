"""Three instances on a Cassandra node, which is found or started as for the tests; the one that the caller speaks to is
killed with kill -9 in the middle of the day, and started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from examples.departures.processes import Place, RunError
from tests.engines.play import Instances
from tests.engines.starting import CANNOT_START, fresh_store, redis_options

# A day of a minute is too short for the default of ten seconds.
_LEASE = ("--set", "heartbeat=1s", "--set", "lease_ttl=5s")


@asynccontextmanager
async def instances(folder: Path) -> AsyncIterator[Place]:
    with ExitStack() as started:
        try:
            found, keyspace = await asyncio.to_thread(started.enter_context, fresh_store("timerd_departures"))
            second_way = await asyncio.to_thread(started.enter_context, redis_options())
        except CANNOT_START as reason:
            raise RunError(str(reason)) from reason
        three = Instances(found, keyspace, folder, *_LEASE, *second_way)
        try:
            await three.start()
            yield Place(three.callers_target, three.worker_target, three)
        finally:
            await three.stop()
