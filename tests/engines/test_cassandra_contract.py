"""The store on a real Cassandra keeps the contracts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from tests.engines.keyspace import Keyspace
from timerd.adapters.cassandra.store import CassandraStore
from timerd.testing.contracts import (
    DeadLettersContract,
    EntriesContract,
    RegistersContract,
    RowsContract,
    SettleContract,
    SpreadContract,
    StretchContract,
    TraitsContract,
)

pytestmark = pytest.mark.engines


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class TestCassandraStore(
    RowsContract,
    StretchContract,
    SpreadContract,
    SettleContract,
    RegistersContract,
    EntriesContract,
    DeadLettersContract,
    TraitsContract,
):
    @pytest.fixture
    async def store(self, keyspace: Keyspace) -> AsyncIterator[CassandraStore]:
        store = await CassandraStore.open(keyspace.settings, wall_ms)
        yield store
        await store.close()

    @pytest.fixture
    async def beside(self, store: CassandraStore, keyspace: Keyspace) -> AsyncIterator[CassandraStore]:
        beside = await CassandraStore.open(keyspace.settings, wall_ms)
        yield beside
        await beside.close()
