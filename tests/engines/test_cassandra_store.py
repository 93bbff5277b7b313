"""What the contracts do not ask of every store: pages by size, several instances, shared requests, what expires."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cassandra import timestamps
from cassandra.cluster import ResponseFuture

from tests.engines.keyspace import Keyspace, opened
from timerd.adapters.cassandra.codec import INLINE_BYTES, ROW_BYTES
from timerd.adapters.cassandra.driver import PAGE_ROWS, Driver, ResultRow, Statement, Values, Wire
from timerd.adapters.cassandra.store import CassandraStore
from timerd.adapters.clocks import SystemClock
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import control_key, move_key, name_key
from timerd.model.storage import Entry, EntryKey
from timerd.ports import Cas, CasStatus, Mark, MarkKind
from timerd.services.holding.engine_time import StoreTime
from timerd.testing.contracts.build import (
    END_MS,
    HERE,
    START_MS,
    batch,
    carried,
    digest,
    key,
    message,
    scan,
)

pytestmark = pytest.mark.engines
DAY_MS = 86_400_000
LATER_MS = START_MS + 400 * DAY_MS


class Stepped(SystemClock):
    """The clock of this machine, whose wall clock the test steps."""

    ahead_ms = 0.0

    def wall_ms(self) -> float:
        return super().wall_ms() + self.ahead_ms


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class CountingDriver(Driver):
    """Notes how many requests there were of each kind."""

    reads = 0
    writes = 0
    batched = 0

    async def rows(self, statement: Statement, values: Values) -> list[ResultRow]:
        self.reads += 1
        return await super().rows(statement, values)

    async def write_wire(self, rows: Sequence[tuple[Statement, Wire]]) -> None:
        self.writes += 1
        self.batched += len(rows)
        await super().write_wire(rows)


async def attached(driver: Driver) -> CassandraStore:
    loop = asyncio.get_running_loop()
    store = await loop.run_in_executor(None, CassandraStore, driver, wall_ms)
    driver.attach(loop)
    return store


@pytest.fixture
async def store(keyspace: Keyspace) -> AsyncIterator[CassandraStore]:
    store = await CassandraStore.open(keyspace.settings, wall_ms)
    yield store
    await store.close()


@pytest.fixture
async def other(keyspace: Keyspace) -> AsyncIterator[CassandraStore]:
    """Another instance; its clock is so far ahead that everything of the tests has expired."""
    store = await opened(keyspace.settings, lambda: LATER_MS)
    yield store
    await store.close()


class TestPages:
    async def test_a_scan_over_many_requests_brings_each_row_once(self, store: CassandraStore) -> None:
        positions = [START_MS + n % 100_000 for n in range(0, 37 * (2 * PAGE_ROWS + 500), 37)]
        await store.append([batch("m", positions)])
        for keys_only in (True, False):
            read = await scan(store, limit_bytes=300_000, keys_only=keys_only)
            assert [k.position_ms for k in read.keys] == sorted(positions)
            assert len(read.groups) > 1

    async def test_a_page_is_cut_by_the_bytes_of_its_rows(self, store: CassandraStore) -> None:
        sizes = [10, INLINE_BYTES, INLINE_BYTES + 1, 300_000, 0, 1 << 20, 5_000] * 3
        bodies = {key(f"k{n}", n): bytes([n]) * size for n, size in enumerate(sizes)}
        await store.append([carried(k, payload=body) for k, body in bodies.items()])
        seen: dict[RowKey, bytes] = {}
        cursor, done = 0, False
        while not done:
            page = await store.scan(HERE, START_MS, END_MS, cursor, 400_000)
            cursor, done = page.cursor, page.done
            rows = {k: group.payload(n) for group in page.groups for n, k in enumerate(group.keys())}
            assert sum(map(len, list(rows.values())[:-1])) + ROW_BYTES * len(rows) <= 400_000 + ROW_BYTES
            assert not seen.keys() & rows.keys()
            seen |= rows
        assert seen == bodies
        assert cursor == 0

    async def test_a_mark_is_never_met_after_its_row(self, store: CassandraStore) -> None:
        keys = [key(f"k{n}", n // 3) for n in range(30)]
        await store.append([carried(*keys)])
        await store.mark([Mark(HERE, k, MarkKind.CANCELLED, b"me") for k in keys])
        marked: set[object] = set()
        cursor, done = 0, False
        while not done:
            page = await store.scan(HERE, START_MS, END_MS, cursor, 1)
            cursor, done = page.cursor, page.done
            marked |= {mark.key for mark in page.marks}
            assert {k for group in page.groups for k in group.keys()} <= marked
        assert marked == set(keys)

    async def test_a_look_up_of_large_bodies_brings_them_whole(self, store: CassandraStore) -> None:
        bodies = {key(f"k{n}", n): bytes([n]) * 100_000 for n in range(60)}
        await store.append([carried(k, payload=body) for k, body in bodies.items()])
        found = await store.find(HERE, [(k.position_ms, k.digest) for k in bodies])
        assert [f.rows.payload(0) for f in found] == list(bodies.values())


class TestAnswers:
    async def test_they_are_freed_without_the_collector(self, store: CassandraStore) -> None:
        """Thousands of circles that wait for it hold up firing for 40 ms."""
        await store.append([batch("m", [START_MS])])
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                await scan(store)
            await asyncio.sleep(0.1)
            assert sum(type(each) is ResponseFuture for each in gc.get_objects()) <= 1
        finally:
            gc.enable()


class TestRepeats:
    async def test_a_repeat_writes_the_same_row_again_and_the_first_one_stays(self, store: CassandraStore) -> None:
        first = carried(key("a"), payload=b"first")
        for payload in (b"first", b"other"):
            (appended,) = await store.append([replace(carried(key("a"), payload=payload), prefix=b"p" * 12)])
            assert appended.repeated is None
        assert first.groups[0][1].keys() == (await scan(store)).keys
        assert (await scan(store)).payloads == {key("a"): b"first"}

    async def test_of_several_writings_one_is_read_wherever_a_page_ends(self, store: CassandraStore) -> None:
        keys = [key(f"k{n}", n) for n in range(20)]
        for _ in range(3):
            await store.append([carried(*keys)])
        assert (await scan(store, limit_bytes=1)).keys == keys
        assert (await scan(store)).keys == keys


class TestSeveralInstances:
    async def test_what_one_wrote_another_reads(self, store: CassandraStore, other: CassandraStore) -> None:
        await store.append([message("a", key("a"))])
        await other.cas([Cas(control_key(HERE), None, b"held")])
        (appended,) = await store.append([message("b", key("b"))])
        assert appended.controls == {HERE: b"held"}
        assert (await scan(other)).keys == sorted([key("a"), key("b")])

    async def test_what_was_written_by_a_clock_that_was_ahead_for_a_moment_others_remove(
        self, keyspace: Keyspace, store: CassandraStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An instance whose clock jumps by an hour and back. The driver would never go back behind what it has said."""
        clock = Stepped()
        monkeypatch.setattr(timestamps, "time", SimpleNamespace(time=lambda: clock.wall_ms() / 1e3))
        ahead = await CassandraStore.open(keyspace.settings, StoreTime(clock).now_ms)
        notes = [Entry(EntryKey(b"notes", name), b"halted") for name in (b"then", b"since")]
        try:
            clock.ahead_ms = 3_600_000.0
            await ahead.write_entries(notes[:1])
            clock.ahead_ms = 0.0
            await ahead.write_entries(notes[1:])
            assert [note.key for note in await store.list_entries(b"notes", b"", 10)] == [
                notes[1].key,
                notes[0].key,
            ]
            await store.remove_entries([note.key for note in notes])
            assert not await store.list_entries(b"notes", b"", 10)
        finally:
            await ahead.close()

    async def test_of_two_instances_that_expect_the_same_one_wins(
        self, store: CassandraStore, other: CassandraStore
    ) -> None:
        value: bytes | None = None
        for n in range(5):
            both = enumerate((store, other))
            changes = [each.cas([Cas(control_key(HERE), value, b"%d%d" % (n, at))]) for at, each in both]
            results = [result for (result,) in await asyncio.gather(*changes)]
            (value,) = await store.read([control_key(HERE)])
            winners = [at for at, result in enumerate(results) if result.status == CasStatus.APPLIED]
            assert value == b"%d%d" % (n, winners[0])
            assert len(winners) == 1

    async def test_the_largest_announced_shard_counts(self, store: CassandraStore, other: CassandraStore) -> None:
        shards = [HERE._replace(shard=shard) for shard in range(3)]
        await store.append([carried(key("a"), partition=shards[0])])
        await other.append([carried(key("b"), partition=shards[2])])
        await store.append([carried(key("c"), partition=shards[1])])
        assert [e.shard_count for e in await store.catalogue(0, START_MS, END_MS)] == [3]
        await store.finish_bucket(0, START_MS, finished=True)
        left = []
        for shard in shards:
            await other.drop(shard)
            left.append(len(await store.catalogue(0, START_MS, END_MS)))
        assert left == [1, 1, 0]


class TestSharedRequests:
    async def test_inserts_of_a_partition_share_batches_and_control_reads(self, keyspace: Keyspace) -> None:
        driver = await asyncio.get_running_loop().run_in_executor(None, CountingDriver.connect, keyspace.settings)
        assert isinstance(driver, CountingDriver)
        store = await attached(driver)
        await store.cas([Cas(control_key(HERE), None, b"held")])
        await store.append([message("first", key("first"))])
        driver.reads = driver.writes = driver.batched = 0
        keys = [key(f"k{n}", n) for n in range(500)]
        appended = await asyncio.gather(*(store.append([message(f"m{n}", k)]) for n, k in enumerate(keys)))
        counted = driver.reads, driver.writes, driver.batched
        assert {one.controls[HERE] for (one,) in appended} == {b"held"}
        assert (await scan(store)).keys == sorted([*keys, key("first")])
        await store.close()
        assert counted == (1, 5, 500)

    async def test_a_spread_reads_the_control_rows_of_many_buckets_at_once(self, keyspace: Keyspace) -> None:
        driver = await asyncio.get_running_loop().run_in_executor(None, CountingDriver.connect, keyspace.settings)
        assert isinstance(driver, CountingDriver)
        store = await attached(driver)
        await store.append([batch("m", [START_MS + n * 300_000 for n in range(200)])])
        await store.close()
        assert driver.reads < 200


class TestExpiry:
    async def test_a_register_goes_when_its_day_is_over(self, store: CassandraStore, other: CassandraStore) -> None:
        soon, never, longer = name_key("d", "soon"), move_key(b"n" * 16), name_key("d", "longer")
        await store.cas([Cas(soon, None, b"1", START_MS), Cas(never, None, b"1"), Cas(longer, None, b"1", START_MS)])
        await store.cas([Cas(longer, b"1", b"2", LATER_MS + DAY_MS)])
        await store.tidy()
        assert list(await store.read([soon, never, longer])) == [b"1", b"1", b"2"]
        await other.tidy()
        assert list(await store.read([soon, never, longer])) == [None, b"1", b"2"]

    async def test_nothing_goes_while_a_bucket_of_its_time_is_open(
        self, store: CassandraStore, other: CassandraStore
    ) -> None:
        soon = name_key("d", "soon")
        await store.append([carried(key("a"))])
        await store.cas([Cas(soon, None, b"1", START_MS + 60_000)])
        await other.tidy()
        assert list(await store.read([soon])) == [b"1"]
        await store.finish_bucket(0, START_MS, finished=True)
        await other.tidy()
        assert list(await store.read([soon])) == [None]

    async def test_a_day_without_buckets_is_no_longer_looked_at(
        self, keyspace: Keyspace, store: CassandraStore, other: CassandraStore
    ) -> None:
        await store.append([carried(key("a"))])
        await store.finish_bucket(0, START_MS, finished=True)
        # The list of days is as old as it would be then.
        keyspace.run("INSERT INTO days (kind, day, name) VALUES ('catalogue', 7, '0') USING TIMESTAMP 1")
        await other.tidy()
        days = keyspace.run("SELECT day FROM days WHERE kind = 'catalogue'")
        assert days == [(START_MS // DAY_MS,)]
        await other.append([carried(key("b"), partition=Partition(0, START_MS + 300_000, 0))])
        assert len(await store.catalogue(0, 0, 1 << 60)) == 2


class TestFind:
    async def test_a_key_that_is_asked_twice_is_answered_twice(self, store: CassandraStore) -> None:
        await store.append([message("a", key("a", 5))])
        found = await store.find(HERE, [(START_MS + 5, digest("a"))] * 2)
        assert [len(each.rows) for each in found] == [1, 1]
