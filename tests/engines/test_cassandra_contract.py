"""The store on a real Cassandra keeps the contracts; those on repeats where it is told to remember replies."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.engines.keyspace import Keyspace
from timerd.adapters.cassandra.store import CassandraStore
from timerd.testing.contracts import LettersContract, RegistersContract, RowsContract, SettleContract, SpreadContract

pytestmark = pytest.mark.engines


# By default a repeat writes the same rows again (protocol section 5).
ON_REPEATS = {
    "test_a_repeated_message_stores_nothing_and_gets_the_first_reply",
    "test_of_two_equal_messages_at_once_one_is_stored",
    "test_a_repeat_of_a_spread_stores_nothing",
}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class TestCassandraStore(RowsContract, SpreadContract, SettleContract, RegistersContract, LettersContract):
    @pytest.fixture
    async def store(self, keyspace: Keyspace, request: pytest.FixtureRequest) -> AsyncIterator[CassandraStore]:
        settings = replace(keyspace.settings, remember_requests=request.node.name in ON_REPEATS)
        store = await CassandraStore.open(settings, wall_ms)
        yield store
        await store.close()
