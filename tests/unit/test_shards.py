"""Shards: which one a message goes to, where its repeat is looked for, and how a hot bucket gets more of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import numpy as np

from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.load_estimate import MOST_COUNTED, SHARD_BYTES, SHARD_ROWS, LoadEstimate
from timerd.model.errors import StoreUnavailable
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import RegisterKey
from timerd.model.rows import RowGroup
from timerd.model.shard_counts import HOT, MOST_HOT, MOST_SHARDS, ShardCounts
from timerd.model.storage import Append
from timerd.services.engine.placed_ids import homes_after
from timerd.services.holding.shards import Shards
from timerd.testing.contracts.build import START_MS, tasks

NEXT_MS = START_MS + BUCKET_MS


def prefix(n: int) -> bytes:
    return b"message %04d" % n


class TestCounts:
    def test_messages_are_spread_evenly_over_the_shards(self) -> None:
        counts = ShardCounts(4)
        spread = Counter(counts.shard(prefix(n), START_MS) for n in range(4_000))
        assert set(spread) == {0, 1, 2, 3}
        assert min(spread.values()) > 900

    def test_a_bucket_grows_and_the_others_stay(self) -> None:
        more = ShardCounts(4).with_more(START_MS, 16, START_MS)
        assert more is not None
        assert (more.count(START_MS), more.count(NEXT_MS)) == (16, 4)
        assert more.with_more(START_MS, 16, START_MS) is None
        assert ShardCounts.from_bytes(4, more.to_bytes()) == more
        assert ShardCounts.from_bytes(4, None) == ShardCounts(4)

    def test_a_repeat_is_looked_for_in_the_shards_of_smaller_counts_first(self) -> None:
        counts = ShardCounts(2, {START_MS: (8, 64)})
        for n in range(50):
            before = [ShardCounts(c).shard(prefix(n), START_MS) for c in (2, 8)]
            now = counts.shard(prefix(n), START_MS)
            assert counts.earlier(prefix(n), START_MS) == [s for s in dict.fromkeys(before) if s != now]
        assert counts.earlier(prefix(0), NEXT_MS) == []

    def test_there_is_a_limit_to_shards_and_to_hot_buckets_and_what_is_over_is_left_out(self) -> None:
        full = ShardCounts(1, {START_MS + n * BUCKET_MS: (2,) for n in range(MOST_HOT)})
        assert full.with_more(START_MS - BUCKET_MS, 9, START_MS) is None
        most = full.with_more(START_MS, 1 << 20, START_MS)
        assert most is not None
        assert most.count(START_MS) == MOST_SHARDS
        later = most.with_more(NEXT_MS, 3, NEXT_MS)
        assert later is not None
        assert START_MS not in later.hot


class TestHeat:
    def test_a_bucket_that_is_not_hot_stays_as_it_is(self) -> None:
        estimate = LoadEstimate()
        estimate.add(START_MS, SHARD_ROWS, SHARD_BYTES)
        assert estimate.wanted(START_MS, 1, 1) == 1
        assert estimate.wanted(NEXT_MS, 4, 3) == 4

    def test_a_hot_one_gets_twice_as_many_at_least_and_something_for_every_instance(self) -> None:
        estimate = LoadEstimate()
        estimate.add(START_MS, SHARD_ROWS + 1, 0)
        assert estimate.wanted(START_MS, 1, 1) == 2
        assert estimate.wanted(START_MS, 1, 5) == 10
        estimate.add(START_MS, 0, 40 * SHARD_BYTES)
        assert estimate.wanted(START_MS, 4, 1) == 41

    def test_the_coldest_are_forgotten(self) -> None:
        estimate = LoadEstimate()
        for n in range(MOST_COUNTED + 1):
            estimate.add(START_MS + n * BUCKET_MS, 1 + (n == 3), 1)
        assert len(estimate.rows) == len(estimate.size_bytes) < MOST_COUNTED
        assert START_MS + 3 * BUCKET_MS in estimate.rows


class CountingStore(MemoryStore):
    reads = 0
    is_away = False

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        self.reads += HOT in keys
        if self.is_away:
            raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")
        return await super().read(keys)


def one_bucket(n: int, count: int = 3) -> RowGroup:
    return tasks(prefix(n).decode(), [START_MS + item for item in range(count)])


class TestShards:
    async def shard(self, shards: Shards, n: int, count: int = 3) -> int:
        rows = one_bucket(n, count)
        return (await shards.place(rows.prefixes[0].tobytes(), rows, rows.columns["position_ms"]))[START_MS]

    async def test_on_one_machine_nothing_is_read(self) -> None:
        store = CountingStore()
        assert [await self.shard(Shards(store), n) for n in range(20)] == [0] * 20
        assert store.reads == 0

    async def test_the_counts_are_read_now_and_then(self) -> None:
        store = CountingStore()
        shards = Shards(store, 4, grows=True)
        assert {await self.shard(shards, n) for n in range(50)} == {0, 1, 2, 3}
        assert store.reads == 1
        await shards.close()

    async def test_a_store_that_is_away_leaves_what_is_known(self) -> None:
        store = CountingStore()
        shards = Shards(store, 4, grows=True)
        store.is_away = True
        assert {await self.shard(shards, n) for n in range(50)} == {0, 1, 2, 3}
        await shards.close()

    async def test_a_repeat_stays_where_its_first_call_went(self) -> None:
        store = CountingStore()
        shards = Shards(store, 2, grows=True)
        first = {}
        for n in range(20):
            first[n] = await self.shard(shards, n, 120)
            await store.append([Append(((Partition(TIME_SCOPE, START_MS, first[n]), one_bucket(n, 120)),))])
        await shards.grow(START_MS, 32)
        assert {n: await self.shard(shards, n, 120) for n in range(20)} == first
        assert max([await self.shard(shards, n) for n in range(20, 60)]) > 1
        await shards.close()

    async def test_what_one_instance_records_the_others_follow(self) -> None:
        store = CountingStore()
        one, other = Shards(store, 2, grows=True), Shards(store, 2, grows=True)
        await asyncio.gather(one.grow(START_MS, 8), other.grow(NEXT_MS, 16), other.grow(START_MS, 4))
        counts = ShardCounts.from_bytes(2, (await store.read([HOT]))[0])
        assert (counts.count(START_MS), counts.count(NEXT_MS)) == (8, 16)
        assert max([await self.shard(other, n) for n in range(60)]) == 7
        await one.close()
        await other.close()

    async def test_a_bucket_that_gets_many_tasks_gets_more_shards(self) -> None:
        shards = Shards(CountingStore(), 2, grows=True, instances=lambda: 3)
        positions_ms = np.full(SHARD_ROWS, START_MS)
        shards.took_in(positions_ms, 1)
        shards.took_in(np.array([NEXT_MS]), 1)
        await asyncio.sleep(0.01)
        assert max([await self.shard(shards, n) for n in range(60)]) == 5
        await shards.close()


def test_rows_that_were_written_again_keep_the_shard_of_their_first_place() -> None:
    positions_ms = np.array([START_MS + 1, START_MS + 2, NEXT_MS + 1, NEXT_MS + 2])
    shards = {START_MS: 3, NEXT_MS: 5}
    assert homes_after(positions_ms, positions_ms, shards) == (shards, {})
    placed_ms = np.array([NEXT_MS + 9, START_MS + 2, NEXT_MS + 1, NEXT_MS + 2])
    assert homes_after(positions_ms, placed_ms, shards) == (shards, {0: 3})
    later_ms = NEXT_MS + BUCKET_MS
    placed_ms = np.array([later_ms, later_ms, NEXT_MS + 1, later_ms])
    assert homes_after(positions_ms, placed_ms, shards) == ({NEXT_MS: 5, later_ms: 3}, {3: 5})
