"""Whatever is done in whatever order, with restarts and drops between: Cassandra answers as the store in RAM."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tests.engines.keyspace import Keyspace, opened
from tests.sqlite.like_memory import PLACES, LikeMemory
from timerd.adapters.cassandra.store import CassandraStore
from timerd.model.partition import Partition

pytestmark = pytest.mark.engines


class CassandraLikeMemory(LikeMemory):
    """The same rules, but for what only SQLite has: splits of days, and cursors."""

    keyspace: Keyspace

    def __init__(self) -> None:
        self.keyspace.empty()
        super().__init__()

    def opened(self) -> CassandraStore:  # type: ignore[override]
        return self.run(opened(self.keyspace.settings, lambda: self.now_ms))

    def split(self, day: int) -> None:
        """There are no far groups."""

    @rule(partition=PLACES)
    def sweep(self, partition: Partition) -> None:
        self.scan(partition, 0, 12, 1)


@pytest.mark.timeout(600)
def test_cassandra_answers_as_the_store_in_ram(keyspace: Keyspace) -> None:
    CassandraLikeMemory.keyspace = keyspace
    case = CassandraLikeMemory.TestCase
    case.settings = settings(max_examples=6, stateful_step_count=25, deadline=None)
    ran = case("runTest").run()
    assert ran is not None
    assert ran.wasSuccessful(), ran.failures + ran.errors
