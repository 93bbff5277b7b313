"""The store on Cassandra or ScyllaDB: the ports over the tables of cql/, one small module for each.

Rows are plain quorum writes and reads, registers are lightweight transactions and serial reads; nothing is kept in this
process that another one would have to know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set

from timerd.adapters.cassandra.appending import Appending
from timerd.adapters.cassandra.catalogue import Catalogue
from timerd.adapters.cassandra.days import Days
from timerd.adapters.cassandra.dead_letters import DeadLetters
from timerd.adapters.cassandra.driver import BATCH_ROWS, Driver
from timerd.adapters.cassandra.entries import EntryTable
from timerd.adapters.cassandra.estimates import Estimates
from timerd.adapters.cassandra.registers import CassandraRegisters, Expiries
from timerd.adapters.cassandra.schema import check_schema, replicas
from timerd.adapters.cassandra.settings import CassandraSettings, advice_on, settings_of
from timerd.adapters.cassandra.settled import SettledTable
from timerd.adapters.cassandra.tasks import TaskTable
from timerd.adapters.cassandra.waiting import every
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.config import CassandraConfig
from timerd.model.errors import StoreUnavailable, StoreUnknown, TimerdError
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, move_key
from timerd.model.settle import SettleRecord
from timerd.model.storage import KeysAt
from timerd.ports import (
    Append,
    Appended,
    BucketEntry,
    Cas,
    CasResult,
    DeadLetter,
    Entry,
    EntryKey,
    EstimatedTotal,
    Found,
    Look,
    Looked,
    Mark,
    Page,
    StoreFacts,
    StoreTraits,
    Stretch,
    is_bare,
)

TIDY_MS = 600_000
# What a node has on its disk is not ours to see; `timerd doctor` is told of no shortage.
_ROOM_BYTES = 1 << 62
_log = logging.getLogger(__name__)


class CassandraStore:
    """All of `Store`. `now_ms` tells what may be forgotten, and dates what is written; never what fires."""

    traits = StoreTraits(pages_in_order=True, is_shared=True)

    def __init__(self, driver: Driver, now_ms: Callable[[], int]) -> None:
        """Blocks; see `open`."""
        self._driver = driver
        self._now_ms = now_ms
        self._schema_version = check_schema(driver)
        self._replicas = replicas(driver)
        self._written = WriteNumbers(driver.now_us)
        days = Days(driver)
        self._catalogue = Catalogue(driver, days)
        self._expiries = Expiries(driver, days, now_ms)
        self._registers = CassandraRegisters(driver, self._expiries)
        self._tasks = TaskTable(driver)
        self._settled = SettledTable(driver, self._written)
        self._dead_letters = DeadLetters(driver, days)
        self._estimates = Estimates(driver, days, now_ms)
        self._entries = EntryTable(driver)
        self._appending = Appending(self._tasks, self._catalogue, self._registers, self._written)
        self._tidied_ms = now_ms()
        self._tidying: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, settings: CassandraSettings, now_ms: Callable[[], int]) -> CassandraStore:
        """Raises StartupError where no node answers or the tables are not those of this version."""
        loop = asyncio.get_running_loop()
        driver = await loop.run_in_executor(None, Driver.connect, settings, now_ms)
        try:
            store = await loop.run_in_executor(None, cls, driver, now_ms)
        except BaseException:
            await driver.close()
            raise
        driver.attach(loop)
        return store

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        return await self._appending.append(messages)

    async def replies(self, prefixes: Sequence[bytes]) -> Sequence[bytes | None]:
        return [None] * len(prefixes)

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        return await self._tasks.page(partition, lo_ms, hi_ms, cursor, limit_bytes, keys_only=keys_only)

    async def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        return await self._tasks.stretch(partition, after, hi_ms, most_rows)

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        return await self._tasks.find(partition, keys)

    async def look(self, look: Look) -> Looked:
        """One partition after the other: a call has its groups side by side. The registers meanwhile."""
        bare, stored = await asyncio.gather(
            self._bare(look.rows), self.read([move_key(digest) for digest in look.tasks])
        )
        moved = {digest for digest, move in zip(look.tasks, stored, strict=True) if move is not None}
        return Looked(bare, moved, {p for p in look.partitions if await self.settled(p)})

    async def _bare(self, groups: Sequence[KeysAt]) -> list[list[bool]]:
        return [list(map(is_bare, await self.find(partition, keys))) for partition, keys in groups]

    async def mark_and_look(self, marks: Sequence[Mark], look: Look) -> tuple[int, Looked]:
        fresh = await self.mark(marks)
        try:
            return fresh, await self.look(look)
        except StoreUnavailable as error:
            raise StoreUnknown(f"The marks were written, then the store went away: {error}") from error

    async def mark(self, marks: Sequence[Mark]) -> int:
        places: dict[Partition, list[tuple[Mark, int]]] = {}
        for mark in marks:
            places.setdefault(mark.partition, []).append((mark, self._written.next()))
        await every(
            self._tasks.mark(part[at : at + BATCH_ROWS])
            for part in places.values()
            for at in range(0, len(part), BATCH_ROWS)
        )
        return 0

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        """The dead letters first: a record without its dead letters would end tasks that nobody can redrive."""
        if dead_letters:
            await self._dead_letters.put(dead_letters)
        await self._settled.add(records)

    async def settled(self, partition: Partition, known: Set[tuple[int, int]] = frozenset()) -> Sequence[SettleRecord]:
        return await self._settled.read(partition, known)

    async def drop(self, partition: Partition) -> None:
        """Whole partitions: one deletion each, whatever they hold. The catalogue follows, so that a drop that was cut
        short is made again."""
        await every([self._tasks.drop(partition), self._settled.drop(partition)])
        await self._catalogue.dropped(partition)

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        return await self._catalogue.between(scope, lo_ms, hi_ms)

    async def finish_bucket(self, scope: int, bucket_ms: int, *, finished: bool) -> None:
        await self._catalogue.finish((scope, bucket_ms), finished=finished)

    async def put_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        await self._dead_letters.put(dead_letters)

    async def dead(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        return await self._dead_letters.page(namespace, queue, lo_ms, hi_ms, after, limit)

    async def get_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        return await self._dead_letters.find(task_ids)

    async def take_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        return await self._dead_letters.take(task_ids)

    async def save_estimates(self, counts: Mapping[tuple[str, str, int], int]) -> None:
        await self._estimates.add(counts)

    async def estimates(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> Mapping[int, int]:
        return await self._estimates.between(namespace, queue, lo_ms, hi_ms)

    async def estimated(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> EstimatedTotal:
        counts = await self.estimates(namespace, queue, lo_ms, hi_ms)
        return EstimatedTotal(sum(counts.values()), len(counts))

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        self._tidy_sometimes()
        return await self._registers.cas(changes)

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        return await self._registers.read(keys)

    async def write_entries(self, entries: Sequence[Entry]) -> None:
        await self._entries.write(entries)

    async def find_entries(self, keys: Sequence[EntryKey]) -> Sequence[bytes | None]:
        return await self._entries.find(keys)

    async def list_entries(self, place: bytes, after: bytes, limit: int) -> Sequence[Entry]:
        return await self._entries.list(place, after, limit)

    async def remove_entries(self, keys: Sequence[EntryKey]) -> None:
        await self._entries.remove(keys)

    async def tidy(self) -> None:
        """Forgets registers whose time has passed and days without buckets. Nothing of the time of an open bucket."""
        now_ms, now_us = self._now_ms(), self._driver.now_us()
        open_ms = await self._catalogue.oldest_open_ms(now_ms)
        await self._expiries.remove(open_ms, now_us)
        await self._catalogue.trim(open_ms, now_us)

    async def facts(self) -> StoreFacts:
        durability = f"acknowledged by a quorum of {self._replicas} replicas (Cassandra, QUORUM and SERIAL)"
        return StoreFacts("cassandra", durability, 0, _ROOM_BYTES, self._schema_version, advice=self._advice())

    def _advice(self) -> tuple[str, ...]:
        return advice_on(self._driver.settings, self._replicas)

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait([self._tidying])
        await self._appending.settle()
        await self._driver.close()

    def _tidy_sometimes(self) -> None:
        now_ms = self._now_ms()
        if abs(now_ms - self._tidied_ms) >= TIDY_MS and (self._tidying is None or self._tidying.done()):
            self._tidied_ms = now_ms
            self._tidying = asyncio.get_running_loop().create_task(self._tidy())

    async def _tidy(self) -> None:
        try:
            await self.tidy()
        except (StoreUnavailable, StoreUnknown, TimerdError) as error:
            _log.warning("What has expired could not be forgotten; it is tried again later. %s", error)


async def open_store(config: CassandraConfig, now_ms: Callable[[], int]) -> CassandraStore:
    """Raises StartupError where no node answers or the tables are not those of this version."""
    store = await CassandraStore.open(settings_of(config), now_ms)
    for sentence in (await store.facts()).advice:
        _log.warning("%s", sentence)
    return store
