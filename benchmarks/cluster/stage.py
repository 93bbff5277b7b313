"""What a measure of a cluster plays on: a node that all measures share, a keyspace for each, instances on it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.engines.keyspace import settings_for
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import apply_schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.bench import Bench
    from benchmarks.processes import Server
    from tests.engines.finding import Found
    from timerd.adapters.cassandra.settings import CassandraSettings


@dataclass(frozen=True, slots=True)
class Stage:
    found: Found

    @asynccontextmanager
    async def keyspace(self) -> AsyncIterator[CassandraSettings]:
        """With its tables; dropped at the end."""
        settings = settings_for(self.found, keyspace=f"timerd_bench_{secrets.token_hex(4)}")
        await asyncio.to_thread(apply_schema, settings)
        try:
            yield settings
        finally:
            await asyncio.to_thread(_drop, settings)

    async def instance(self, bench: Bench, settings: CassandraSettings, name: str, *options: str) -> Server:
        """A process of its own."""
        store = ("--store", "cassandra", "--cassandra", f"{self.found.address}:{self.found.port}")
        where = ("--keyspace", settings.keyspace, "--datacenter", self.found.datacenter, "--name", name)
        return await bench.server(*store, *where, *options)


def _drop(settings: CassandraSettings) -> None:
    driver = Driver.connect(settings)
    try:
        driver.run(f"DROP KEYSPACE IF EXISTS {settings.keyspace}")
    finally:
        driver.shutdown()
