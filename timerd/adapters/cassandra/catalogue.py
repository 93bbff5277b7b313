"""Which buckets exist, are finishing, are finished: rows by day, so that any range is a few reads.

A bucket is announced before its first row is written, and remembered here, so that later rows cost nothing. The day is
listed after the bucket was added to it: a clean-up that takes an empty day off the list before that cannot take the new
entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from timerd.adapters.cassandra.days import DAY_MS, Days, day_of
from timerd.adapters.cassandra.driver import BATCH_ROWS, READS, ROWS, Driver, ResultRow
from timerd.adapters.cassandra.shared import SharedReads
from timerd.adapters.cassandra.waiting import every
from timerd.model.partition import Partition
from timerd.ports import BucketEntry

PRESENT, FINISHING, FINISHED = 1, 2, 3
KIND = "catalogue"
_MOST_REMEMBERED = 200_000
# An entry of the list of days that is younger than this stays, whatever the clocks of two instances say.
_MARGIN_US = 60_000_000
Bucket = tuple[int, int]
# A bucket, and 0, or one of its key shards.
Announced = tuple[int, int, int]
Fact = tuple[int, int]


class Catalogue:
    def __init__(self, driver: Driver, days: Days) -> None:
        self._driver = driver
        self._days = days
        self._add = driver.prepare(
            "INSERT INTO catalogue (day, scope, fact, bucket_ms, shards) VALUES (?, ?, ?, ?, ?)", ROWS
        )
        self._of_day = driver.prepare("SELECT scope, fact, bucket_ms, shards FROM catalogue WHERE day = ?", READS)
        self._of_scope = driver.prepare(
            "SELECT scope, fact, bucket_ms, shards FROM catalogue WHERE day = ? AND scope = ?", READS
        )
        self._facts_of = driver.prepare(
            "SELECT bucket_ms FROM catalogue WHERE day = ? AND scope = ? AND fact = ?", READS
        )
        self._leave = driver.prepare(
            "DELETE FROM catalogue WHERE day = ? AND scope = ? AND fact = 1 AND bucket_ms = ?", ROWS
        )
        self._announced: dict[Announced, int] = {}
        self._announcing: dict[Announced, asyncio.Future[None]] = {}
        self._flags: SharedReads[tuple[int, int], set[int]] = SharedReads(self._read_flags)

    async def announce(self, partitions: Iterable[Partition]) -> None:
        """Returns when every bucket is in the catalogue, whichever call wrote it there."""
        wanted: dict[Announced, int] = {}
        for partition in partitions:
            name, shard = _announced_as(partition), partition.shard
            if self._announced.get(name, 0) <= shard:
                wanted[name] = max(shard + 1, wanted.get(name, 0))
        if not wanted:
            return
        others = [self._announcing[bucket] for bucket in wanted if bucket in self._announcing]
        mine = {bucket: shards for bucket, shards in wanted.items() if bucket not in self._announcing}
        if mine:
            await self._announce(mine)
        if others:
            await asyncio.wait(others)
            await self.announce([Partition(*name[:2], shards - 1) for name, shards in wanted.items()])

    async def _announce(self, buckets: Mapping[Announced, int]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._announcing.update(dict.fromkeys(buckets, done))
        try:
            await self._write({(name[:2], (PRESENT, shards)) for name, shards in buckets.items()})
            if len(self._announced) > _MOST_REMEMBERED:
                self._announced.clear()
            self._announced.update(buckets)
        finally:
            for bucket in buckets:
                self._announcing.pop(bucket, None)
            done.set_result(None)

    async def finish(self, bucket: Bucket, *, finished: bool) -> None:
        facts = [(PRESENT, 1), (FINISHING, 0), *([(FINISHED, 0)] if finished else [])]
        await self._write({(bucket, fact) for fact in facts})

    async def _write(self, facts: Collection[tuple[Bucket, Fact]]) -> None:
        """The facts first, then the list of days."""
        by_day: dict[int, list[tuple[int, int, int, int, int]]] = {}
        for (scope, bucket_ms), (fact, shards) in facts:
            day = day_of(bucket_ms)
            by_day.setdefault(day, []).append((day, scope, fact, bucket_ms, shards))
        await every(
            self._driver.write_all([(self._add, row) for row in rows[at : at + BATCH_ROWS]])
            for rows in by_day.values()
            for at in range(0, len(rows), BATCH_ROWS)
        )
        await self._days.add(KIND, {(day, str(row[1])) for day, rows in by_day.items() for row in rows})

    async def finishing(self, partitions: Collection[Partition]) -> frozenset[Partition]:
        """Those whose bucket has the flag, by a read that begins now."""
        places = list({(day_of(p.bucket_ms), p.scope) for p in partitions})
        flags = dict(zip(places, await every(self._flags.get(place) for place in places), strict=True))
        return frozenset(p for p in partitions if p.bucket_ms in (flags[day_of(p.bucket_ms), p.scope] or ()))

    async def _read_flags(self, places: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], set[int]]:
        found = await every(self._driver.rows(self._facts_of, (*place, FINISHING)) for place in places)
        return {place: {bucket_ms for (bucket_ms,) in rows} for place, rows in zip(places, found, strict=True)}

    async def between(self, scope: int | None, lo_ms: int, hi_ms: int) -> list[BucketEntry]:
        """Oldest first."""
        days = await self._days.between(KIND, lo_ms, hi_ms)
        wanted = [day for day, scopes in days.items() if scope is None or str(scope) in scopes]
        read = await every(self._read(day, scope) for day in wanted)
        entries = (entry for rows in read for entry in _entries(rows))
        return sorted((e for e in entries if lo_ms <= e.bucket_ms < hi_ms), key=lambda e: (e.bucket_ms, e.scope))

    async def oldest_open_ms(self, before_ms: int) -> int:
        """Start of the oldest bucket that is not finished; `before_ms` where there is none before it."""
        for day in await self._days.between(KIND, -(1 << 62), before_ms):
            found = [e.bucket_ms for e in _entries(await self._read(day, None)) if not e.finished]
            if found:
                return min(*found, before_ms)
        return before_ms

    async def dropped(self, partition: Partition) -> None:
        """A finished bucket leaves the catalogue with the last of its shards; its flags stay."""
        rows = await self._read(day_of(partition.bucket_ms), partition.scope)
        for entry in _entries(rows):
            is_last = entry.bucket_ms == partition.bucket_ms and partition.shard >= entry.last_shard
            if is_last and entry.finished:
                for shard in (0, *entry.key_shards):
                    self._announced.pop((*partition[:2], shard), None)
                await self._driver.write(self._leave, (day_of(partition.bucket_ms), *partition[:2]))

    async def trim(self, before_ms: int, now_us: int) -> None:
        """Takes days off the list in which no bucket is left."""
        for day in await self._days.between(KIND, -(1 << 62), before_ms - DAY_MS):
            if not list(_entries(await self._read(day, None))):
                await self._days.forget(KIND, day, now_us - _MARGIN_US)

    async def _read(self, day: int, scope: int | None) -> list[ResultRow]:
        if scope is None:
            return await self._driver.rows(self._of_day, (day,))
        return await self._driver.rows(self._of_scope, (day, scope))


def _announced_as(partition: Partition) -> Announced:
    return (*partition[:2], partition.shard if partition.is_of_keys else 0)


def _entries(rows: Iterable[ResultRow]) -> Iterable[BucketEntry]:
    """Of one day. A key shard has a row of its own, of whose number an earlier release takes the bucket to have so many
    shards."""
    facts: dict[Bucket, dict[int, set[int]]] = {}
    for scope, fact, bucket_ms, shards in rows:
        facts.setdefault((scope, bucket_ms), {}).setdefault(fact, set()).add(shards)
    for bucket, known in facts.items():
        if PRESENT in known:
            entry = BucketEntry(*bucket, 1, finishing=FINISHING in known, finished=FINISHED in known)
            for shards in known[PRESENT]:
                entry = entry.with_shard(shards - 1)
            yield entry
