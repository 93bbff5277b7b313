"""The catalogue of Cassandra names key shards one by one, beside the number of the other shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from timerd.adapters.cassandra.catalogue import Catalogue
from timerd.adapters.cassandra.days import Days
from timerd.adapters.cassandra.driver import Driver
from timerd.model.partition import BUCKET_MS, FIRST_KEY_SHARD, Partition
from timerd.model.storage import BucketEntry

SHARD = FIRST_KEY_SHARD + 3
Row = tuple[int, ...]


class OneTable:
    """A driver of the catalogue alone: rows as (day, scope, fact, bucket, shards)."""

    def __init__(self) -> None:
        self.kept: set[Row] = set()
        self.writes = 0

    def prepare(self, statement: str, _: object) -> str:
        return statement.split(maxsplit=1)[0]

    async def write_all(self, rows: Sequence[tuple[str, Row]]) -> None:
        self.writes += len(rows)
        self.kept.update(row for _, row in rows)

    async def write(self, _: str, gone: Row) -> None:
        day, scope, bucket_ms = gone
        self.kept = {row for row in self.kept if (row[0], row[1], row[2], row[3]) != (day, scope, 1, bucket_ms)}

    async def rows(self, _: str, where: Row) -> list[Row]:
        return [row[1:] for row in sorted(self.kept) if row[: len(where)] == where]


class EveryDay:
    """A list of days that has all of them."""

    async def add(self, *_: object) -> None:
        """It is there."""

    async def between(self, *_: object) -> dict[int, set[str]]:
        return {0: {"0"}}


def catalogue() -> tuple[Catalogue, OneTable]:
    table = OneTable()
    return Catalogue(cast(Driver, table), cast(Days, cast(Any, EveryDay()))), table


async def test_a_key_shard_is_announced_once_and_named_by_itself() -> None:
    known, table = catalogue()
    for _ in range(2):
        await known.announce([Partition(0, 0, shard) for shard in (1, SHARD, FIRST_KEY_SHARD)])
    assert table.writes == 3
    expected = BucketEntry(0, 0, 2, finishing=False, finished=False, key_shards=(FIRST_KEY_SHARD, SHARD))
    assert await known.between(0, 0, BUCKET_MS) == [expected]


async def test_a_bucket_of_keys_alone_has_the_shard_that_each_bucket_has() -> None:
    known, _ = catalogue()
    await known.announce([Partition(0, 0, SHARD)])
    [entry] = await known.between(0, 0, BUCKET_MS)
    assert (entry.shard_count, entry.key_shards) == (1, (SHARD,))


async def test_a_finished_bucket_leaves_with_its_last_key_shard() -> None:
    known, table = catalogue()
    partitions = [Partition(0, 0, shard) for shard in (0, FIRST_KEY_SHARD, SHARD)]
    await known.announce(partitions)
    await known.finish((0, 0), finished=True)
    for partition in partitions:
        assert await known.between(0, 0, BUCKET_MS)
        await known.dropped(partition)
    assert await known.between(0, 0, BUCKET_MS) == []
    before = table.writes
    await known.announce(partitions)
    assert table.writes == before + 3
