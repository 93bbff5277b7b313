"""The same steps on a store and on memory."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timerd.adapters.memory import MemoryStore
from timerd.adapters.sqlite import mark_index, mark_writing
from timerd.adapters.sqlite.store import SqliteStore
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import control_key
from timerd.model.rows import RowGroup, concat
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.ports import Append, Cas, Mark, MarkKind, Store
from timerd.testing.contracts.build import START_MS, digest, row, scan, spread

T = TypeVar("T")
DAY_MS = 86_400_000
DAYS = st.sampled_from([0, 3, 4])
PLACES = st.builds(
    lambda day, bucket, scope: Partition(scope, START_MS + day * DAY_MS + bucket * BUCKET_MS, 0),
    DAYS,
    st.integers(0, 1),
    st.sampled_from([0, 5]),
)
NAMES = st.integers(0, 11)
BODIES = st.binary(max_size=6)


def row_key(partition: Partition, name: int, version: int = 0) -> RowKey:
    """A name always has the same position, as a task has."""
    return RowKey(partition.bucket_ms + name % 4 * 1_000, digest(f"row{name}"), version)


class LikeMemory(RuleBasedStateMachine):
    """Each rule does the same to both stores and compares what comes back."""

    def __init__(self) -> None:
        super().__init__()
        # Few marks are a block here, and not all of them are kept in mind.
        self.sizes = [patch.object(mark_writing, "LEAST_IN_BLOCK", 3), patch.object(mark_index, "MOST_MARKS", 8)]
        for size in self.sizes:
            size.start()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        self.now_ms = START_MS
        self.memory = MemoryStore()
        self.sqlite = self.opened()
        self.sent = 0
        self.cursors: dict[Partition, tuple[int, int]] = {}

    def opened(self) -> SqliteStore:
        return SqliteStore(self.folder / "data", lambda: self.now_ms, "normal")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def both(self, method: str, *arguments: object) -> tuple[Any, Any]:
        expected = self.run(getattr(self.memory, method)(*arguments))
        return expected, self.run(getattr(self.sqlite, method)(*arguments))

    def same(self, method: str, *arguments: object) -> None:
        expected, got = self.both(method, *arguments)
        assert got == expected

    def append(self, *messages: Append) -> None:
        """The store in RAM knows repeats; it is not told of them where the other one does not."""
        knows = self.sqlite.traits.knows_repeats
        told = messages if knows else [replace(message, prefix=b"") for message in messages]
        expected, got = self.run(self.memory.append(told)), self.run(self.sqlite.append(messages))
        assert [replace(a, sources={}) for a in got] == [replace(a, sources={}) for a in expected]

    @rule(
        partition=PLACES, names=st.lists(NAMES, min_size=1, max_size=4, unique=True), body=BODIES, again=st.booleans()
    )
    def schedule(self, partition: Partition, names: list[int], body: bytes, again: bool) -> None:
        self.sent += 0 if again else 1
        prefix = b"m%011d" % self.sent
        keys = [RowKey(partition.bucket_ms + n * 1_000, prefix + n.to_bytes(4, "big"), 0) for n in names]
        self.append(Append(((partition, concat([row(k, body) for k in keys])),), prefix, b"reply %d" % self.sent))

    @rule(days=st.lists(st.tuples(DAYS, st.integers(0, 300_000 * 3)), min_size=1, max_size=5), again=st.booleans())
    def schedule_over_days(self, days: list[tuple[int, int]], again: bool) -> None:
        self.sent += 0 if again else 1
        positions = [START_MS + day * DAY_MS + after_ms for day, after_ms in days]
        self.append(spread(f"m{self.sent:011}", positions))

    @rule(partition=PLACES, rows=st.lists(st.tuples(NAMES, st.integers(0, 2)), min_size=1, max_size=4, unique=True))
    def carry(self, partition: Partition, rows: list[tuple[int, int]]) -> None:
        self.sent += 1
        group = concat([row(row_key(partition, *r), b"%d" % self.sent) for r in rows])
        self.append(Append(((partition, group),)), Append(((partition, group),)))

    @rule(partition=PLACES, name=NAMES, kind=st.sampled_from(MarkKind), value=BODIES)
    def mark(self, partition: Partition, name: int, kind: MarkKind, value: bytes) -> None:
        expected, got = self.both("mark", [Mark(partition, row_key(partition, name), kind, value)])
        assert got == (expected if self.sqlite.traits.counts_marks else 0)

    @rule(
        partition=PLACES,
        rows=st.lists(st.tuples(NAMES, st.integers(0, 1)), min_size=1, max_size=12),
        kind=st.sampled_from([MarkKind.CANCELLED, MarkKind.PURGED]),
        value=BODIES,
    )
    def mark_together(self, partition: Partition, rows: list[tuple[int, int]], kind: MarkKind, value: bytes) -> None:
        expected, got = self.both("mark", [Mark(partition, row_key(partition, *r), kind, value) for r in rows])
        assert got == (expected if self.sqlite.traits.counts_marks else 0)

    @rule(partition=PLACES, token=st.integers(1, 2), sequence=st.integers(0, 3), outcome=st.sampled_from(Outcome))
    def settle(self, partition: Partition, token: int, sequence: int, outcome: Outcome) -> None:
        entries = settle_entries([(row_key(partition, 0), outcome)])
        self.same("settle", [SettleRecord(partition, token, sequence, entries)])

    @rule(partition=PLACES, expected=st.sampled_from([None, b"1", b"2"]), value=st.sampled_from([b"1", b"2"]))
    def cas(self, partition: Partition, expected: bytes | None, value: bytes) -> None:
        self.same("cas", [Cas(control_key(partition), expected, value)])

    @rule(partition=PLACES, finished=st.booleans())
    def finish(self, partition: Partition, finished: bool) -> None:
        async def finish(store: Store) -> None:
            await store.finish_bucket(partition.scope, partition.bucket_ms, finished=finished)

        self.run(finish(self.memory))
        self.run(finish(self.sqlite))

    @rule(partition=PLACES)
    def drop(self, partition: Partition) -> None:
        self.cursors.pop(partition, None)
        self.same("drop", partition)

    @rule()
    def restart(self) -> None:
        self.run(self.sqlite.close())
        self.sqlite = self.opened()
        self.cursors.clear()

    @rule(days=st.integers(0, 2))
    def time_passes(self, days: int) -> None:
        """Less than what makes requests expire, in all."""
        self.now_ms = min(self.now_ms + days * 1_000_000, START_MS + DAY_MS - 1)

    @rule(day=DAYS)
    def split(self, day: int) -> None:
        self.run(self.sqlite.split_day(START_MS + day * DAY_MS))

    @rule(partition=PLACES, names=st.lists(NAMES, max_size=5))
    def find(self, partition: Partition, names: list[int]) -> None:
        wanted = [(key.position_ms, key.digest) for key in (row_key(partition, name) for name in names)]
        expected, got = self.both("find", partition, wanted)
        for one, other in zip(expected, got, strict=True):
            assert sorted(contents(other.rows)) == sorted(contents(one.rows))
            assert sorted(other.marks) == sorted(one.marks)

    @rule(partition=PLACES, low=st.integers(0, 4), high=st.integers(0, 12), limit=st.sampled_from([1, 1 << 20]))
    def scan(self, partition: Partition, low: int, high: int, limit: int) -> None:
        lo_ms, hi_ms = (partition.bucket_ms + n * 1_000 for n in (low, high))
        reads = [
            self.run(scan(store, partition, lo_ms=lo_ms, hi_ms=hi_ms, limit_bytes=limit))
            for store in (self.memory, self.sqlite)
        ]
        assert reads[1].payloads == reads[0].payloads
        assert reads[1].keys == reads[0].keys
        assert set(reads[1].marks) == set(reads[0].marks)

    @rule(partition=PLACES)
    def sweep(self, partition: Partition) -> None:
        """By cursor: nothing twice, nothing missed."""
        cursors = self.cursors.get(partition, (0, 0))
        stores: tuple[Store, Store] = (self.memory, self.sqlite)
        reads = [self.run(scan(s, partition, cursor=c)) for s, c in zip(stores, cursors, strict=True)]
        if partition in self.cursors:
            assert reads[1].keys == reads[0].keys
            assert sorted(reads[1].marks) == sorted(reads[0].marks)
        self.cursors[partition] = (reads[0].cursor, reads[1].cursor)

    @rule(partition=PLACES)
    def settled(self, partition: Partition) -> None:
        expected, got = self.both("settled", partition)
        assert [(r.token, r.sequence, r.pack()) for r in got] == [(r.token, r.sequence, r.pack()) for r in expected]

    @precondition(lambda self: self.sent % 3 == 0)
    @invariant()
    def catalogue(self) -> None:
        self.same("catalogue", None, 0, 1 << 50)

    def teardown(self) -> None:
        self.run(self.sqlite.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        for size in self.sizes:
            size.stop()
        shutil.rmtree(self.folder)


def contents(group: RowGroup) -> list[tuple[RowKey, bytes]]:
    return [(key, group.payload(n)) for n, key in enumerate(group.keys())]
