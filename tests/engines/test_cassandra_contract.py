"""The store on a real Cassandra keeps the contracts: with replies remembered all of them, and those on rows without."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from tests.engines.keyspace import Keyspace
from timerd.adapters.cassandra.store import CassandraStore
from timerd.testing.contracts import LettersContract, RegistersContract, RowsContract, SettleContract, SpreadContract

pytestmark = pytest.mark.engines


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class TestCassandraStore(RowsContract, SpreadContract, SettleContract, RegistersContract, LettersContract):
    @pytest.fixture
    async def store(self, keyspace: Keyspace) -> AsyncIterator[CassandraStore]:
        store = await CassandraStore.open(keyspace.settings, wall_ms)
        yield store
        await store.close()
