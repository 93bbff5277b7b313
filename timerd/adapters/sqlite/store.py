"""The store on one machine: a SQLite file in a data directory, durable when the call returns.

Writes go through one thread that commits for all who wait; reads have their own threads and see what is committed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import TypeVar

from timerd.adapters.sqlite.commit import Commit, FarDays
from timerd.adapters.sqlite.days import DAY_MS, FINISHED, FINISHING, PRESENT, day_of, read_catalogue
from timerd.adapters.sqlite.dead_letters import (
    add_estimates,
    add_up_estimates,
    find_dead_letters,
    read_dead_letters,
    read_estimates,
    take_dead_letters,
    write_dead_letters,
)
from timerd.adapters.sqlite.entries import find_entries, list_entries, remove_entries, write_entries
from timerd.adapters.sqlite.far import corrupt_far_groups, far_days
from timerd.adapters.sqlite.files import DataDirectory
from timerd.adapters.sqlite.looking import look_beside
from timerd.adapters.sqlite.marks import read_settled, write_settled
from timerd.adapters.sqlite.reader import Corruption, Reader
from timerd.adapters.sqlite.registers import read_registers
from timerd.adapters.sqlite.requests import read_replies
from timerd.adapters.sqlite.retention import drop_slice
from timerd.adapters.sqlite.schema import MIGRATIONS, connect, lacks, migrate
from timerd.adapters.sqlite.writer import Writer
from timerd.model.errors import StartupError, StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey
from timerd.model.settle import SettleRecord
from timerd.ports import (
    Append,
    Appended,
    BucketEntry,
    Cas,
    CasResult,
    CasStatus,
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
)

T = TypeVar("T")
DURABILITY = {
    "full": "committed with fsync before OK (SQLite, synchronous=FULL)",
    "normal": "committed before OK, fsync later (SQLite, synchronous=NORMAL): a power cut may take the last commits",
}


class SqliteStore:
    """All of `Store`, and `split_day`. `now_ms` tells what is far ahead and what has expired."""

    traits = StoreTraits(knows_repeats=True, has_cursors=True, counts_marks=True, commit_is_cheap=True, sees_disk=True)

    def __init__(
        self,
        directory: Path,
        now_ms: Callable[[], int],
        synchronous: str = "full",
        on_rest: Callable[[], None] = lambda: None,
    ) -> None:
        if synchronous not in DURABILITY:
            raise StartupError(f"synchronous is {synchronous!r}; it must be full or normal.")
        self._synchronous = synchronous
        self._now_ms = now_ms
        self._on_rest = on_rest
        self._corruption = Corruption()
        self._directory = DataDirectory(directory)
        try:
            self._open()
        except sqlite3.Error as error:
            self._directory.close()
            raise StartupError(
                f"{self._directory.database} cannot be opened as a database ({error}). "
                "Restore it from a copy, or name another data directory."
            ) from error
        except StartupError:
            self._directory.close()
            raise

    def _open(self) -> None:
        connection = self._connect()
        try:
            self._schema_version = migrate(connection, self._directory.database)
            self._refuse_incomplete(connection)
            self._far = FarDays(far_days(connection))
            commit = self._commit_on(connection)
            self._pages = Reader(self._directory.database, self._corruption, "pages", self._much_was_read)
            self._look_ups = Reader(self._directory.database, self._corruption, "look-ups", self._much_was_read)
            # The first pass through a bucket reads all of its keys: nobody else waits for it.
            self._lists = Reader(self._directory.database, self._corruption, "lists", self._much_was_read)
        except BaseException:
            connection.close()
            raise
        self._writer = Writer(commit, lambda: self._commit_on(self._connect()), self._corruption.note, self._on_rest)

    def _much_was_read(self) -> None:
        self._writer.rest_again()

    def _refuse_incomplete(self, connection: sqlite3.Connection) -> None:
        """Before anything is written: what is missing would be noticed one call at a time."""
        if wrong := lacks(connection, self._schema_version, MIGRATIONS):
            raise StartupError(
                f"{self._directory.database} {wrong}: restore a copy of it (timerd restore), or name another data "
                "directory."
            )

    def _connect(self) -> sqlite3.Connection:
        return connect(self._directory.database, self._synchronous)

    def _commit_on(self, connection: sqlite3.Connection) -> Commit:
        return Commit(connection, self._far, self._now_ms, self._corruption)

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        return await self._writer.submit(lambda commit: commit.append(messages))

    async def replies(self, prefixes: Sequence[bytes]) -> Sequence[bytes | None]:
        return await self._look_ups.run(lambda connection: read_replies(connection, prefixes, self._now_ms()))

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        self._far.opened.add(day_of(partition.bucket_ms))
        await self.split_day(partition.bucket_ms)
        read = partial(self._pages.page, partition, lo_ms, hi_ms, cursor, limit_bytes, keys_only=keys_only)
        return await self._pages.run(lambda _: read())

    async def split_day(self, day_ms: int) -> None:
        """Moves what was written far ahead for the day of `day_ms` into its buckets. Best called before the day comes
        near; the first reader of the day waits for it otherwise."""
        day = day_of(day_ms)
        while day in self._far.waiting and await self._writer.submit(lambda commit: commit.split(day)):
            pass

    async def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        await self.split_day(partition.bucket_ms)
        read = partial(self._lists.stretch, partition, after, hi_ms, most_rows)
        return await self._lists.run(lambda _: read())

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        await self.split_day(partition.bucket_ms)
        return await self._look_ups.run(lambda _: self._look_ups.find(partition, keys))

    async def look(self, look: Look) -> Looked:
        for day_ms in {partition.bucket_ms // DAY_MS * DAY_MS for partition, _ in look.rows}:
            await self.split_day(day_ms)
        return await self._look_ups.run(lambda _: self._look_ups.look(look))

    async def mark(self, marks: Sequence[Mark]) -> int:
        return await self._write(lambda commit: commit.mark(marks))

    async def mark_and_look(self, marks: Sequence[Mark], look: Look) -> tuple[int, Looked]:
        """Of what only this thread writes, it sees what it has written itself and all that was written before: as a
        look in the moment in which the marks are readable. Rows are for the thread that looks up."""
        if look.rows:
            return await self.mark(marks), await self.look(look)

        def run(commit: Commit) -> Callable[[], tuple[int, Looked]]:
            fresh = commit.mark(marks)
            return lambda: (fresh, look_beside(commit.connection, look))

        return await self._writer.submit(run)

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        def write(commit: Commit) -> None:
            write_dead_letters(commit.connection, dead_letters)
            write_settled(commit.connection, records)

        await self._write(write)

    async def settled(self, partition: Partition, known: Set[tuple[int, int]] = frozenset()) -> Sequence[SettleRecord]:
        return await self._look_ups.run(lambda connection: read_settled(connection, partition, known, self._corruption))

    async def drop(self, partition: Partition) -> None:
        await self.split_day(partition.bucket_ms)
        while await self._write(lambda commit: commit.drop(partition, drop_slice)):
            pass
        await self._look_ups.run(lambda _: self._look_ups.forget(partition))
        await self._lists.run(lambda _: self._lists.forget(partition))

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        return await self._look_ups.run(lambda connection: read_catalogue(connection, scope, lo_ms, hi_ms))

    async def finish_bucket(self, scope: int, bucket_ms: int, *, finished: bool) -> None:
        fields = (PRESENT, FINISHING, FINISHED) if finished else (PRESENT, FINISHING)
        await self._write(lambda commit: commit.days.set(scope, bucket_ms, *fields))

    async def put_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        await self._write(lambda commit: write_dead_letters(commit.connection, dead_letters))

    async def dead(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        read = partial(
            read_dead_letters, namespace=namespace, queue=queue, lo_ms=lo_ms, hi_ms=hi_ms, after=after, limit=limit
        )
        return await self._look_ups.run(read)

    async def get_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        return await self._look_ups.run(lambda connection: find_dead_letters(connection, task_ids))

    async def take_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        return await self._write(lambda commit: take_dead_letters(commit.connection, task_ids))

    async def save_estimates(self, counts: Mapping[tuple[str, str, int], int]) -> None:
        await self._write(lambda commit: add_estimates(commit.connection, counts))

    async def estimates(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> Mapping[int, int]:
        return await self._look_ups.run(lambda c: read_estimates(c, namespace, queue, lo_ms, hi_ms))

    async def estimated(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> EstimatedTotal:
        return await self._look_ups.run(lambda c: add_up_estimates(c, namespace, queue, lo_ms, hi_ms))

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        try:
            return await self._write(lambda commit: commit.registers.cas(changes))
        except (StoreUnavailable, StoreUnknown):
            return [CasResult(CasStatus.UNKNOWN) for _ in changes]

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        return await self._look_ups.run(lambda connection: read_registers(connection, keys))

    async def write_entries(self, entries: Sequence[Entry]) -> None:
        await self._write(lambda commit: write_entries(commit.connection, entries))

    async def find_entries(self, keys: Sequence[EntryKey]) -> Sequence[bytes | None]:
        return await self._look_ups.run(lambda connection: find_entries(connection, keys))

    async def list_entries(self, place: bytes, after: bytes, limit: int) -> Sequence[Entry]:
        return await self._lists.run(lambda connection: list_entries(connection, place, after, limit))

    async def remove_entries(self, keys: Sequence[EntryKey]) -> None:
        await self._write(lambda commit: remove_entries(commit.connection, keys))

    async def facts(self) -> StoreFacts:
        waiting = frozenset(self._far.waiting)
        far = await self._look_ups.run(lambda connection: corrupt_far_groups(connection, waiting))
        return StoreFacts(
            "sqlite",
            DURABILITY[self._synchronous],
            self._directory.used_bytes(),
            self._directory.free_bytes(),
            self._schema_version,
            (*self._corruption.sentences(), *far),
        )

    async def close(self) -> None:
        await self._writer.close()
        self._pages.close()
        self._look_ups.close()
        self._lists.close()
        self._directory.close()

    async def _write(self, work: Callable[[Commit], T]) -> T:
        def run(commit: Commit) -> Callable[[], T]:
            result = work(commit)
            return lambda: result

        return await self._writer.submit(run)
