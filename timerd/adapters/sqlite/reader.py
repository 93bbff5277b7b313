"""The read side: connections and threads of their own, so that neither commits nor the event loop wait for a read.

A page is one transaction: rows and marks of the same moment. What does not match its checksum is named and left out.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from timerd.adapters.sqlite.groups import OpenGroups, between, read_groups
from timerd.adapters.sqlite.jobs import JobResult, Jobs, WriteJob, tell
from timerd.adapters.sqlite.key_index import KeyIndex
from timerd.adapters.sqlite.looking import look
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.marks import marks_on, marks_since
from timerd.adapters.sqlite.order_index import OrderIndex
from timerd.adapters.sqlite.schema import connect_reader, give_back_pages
from timerd.model.errors import CorruptRow, StoreUnavailable
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.ports import Found, Look, Looked, Page, Stretch

T = TypeVar("T")
# Who is first among them waits for the last one.
_MOST_AT_ONCE = 32
# After fewer there is little to give back.
READS_BEFORE_REST = 100
_log = logging.getLogger(__name__)


class Corruption:
    """What was met that does not match its checksum; shared by all threads."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def __call__(self, error: CorruptRow) -> None:
        if str(error) not in self._found:
            self._found[str(error)] = error.consequence
            _log.error("%s %s", error, error.consequence)

    def note(self, error: sqlite3.Error) -> None:
        """Of an error of SQLite itself: whether the file is damaged below what our checksums guard."""
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            self(CorruptRow(f"A page of the database file is damaged ({error})."))

    def sentences(self) -> list[str]:
        return [f"{name} {consequence}" for name, consequence in self._found.items()]


class Reader:
    """One thread with its connection. `on_rest` is called in it when nothing was read for a while after much was."""

    def __init__(
        self, path: Path, on_corrupt: Corruption, name: str, on_rest: Callable[[], None] = lambda: None
    ) -> None:
        self._connection = connect_reader(path)
        self._on_corrupt = on_corrupt
        self._on_rest = on_rest
        self._reads = 0
        self._jobs = Jobs(self._rest)
        self._closed = False
        self._index = KeyIndex(self._connection, on_corrupt)
        self._mark_index = MarkIndex(self._connection, on_corrupt)
        self._groups = OpenGroups(self._connection, on_corrupt)
        self._order = OrderIndex(self._connection, self._groups)
        self._thread = threading.Thread(target=self._serve, name=f"timerd-{name}", daemon=True)
        self._thread.start()

    async def run(self, read: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise StoreUnavailable("The store is closed.", "STORE_CLOSED")
        try:
            result: T = await self._jobs.hand_over(read)
            return result
        except sqlite3.Error as error:
            self._on_corrupt.note(error)
            raise StoreUnavailable(f"The store could not read ({error}).", "STORE_UNAVAILABLE") from error

    def _serve(self) -> None:
        open_ = True
        while open_:
            batch, open_ = self._jobs.next_batch(_MOST_AT_ONCE)
            self._reads += len(batch)
            tell([self._outcome(job) for job in batch])
            # What it read is not kept while it waits for more.
            del batch

    def _rest(self) -> None:
        give_back_pages(self._connection)
        if self._reads >= READS_BEFORE_REST:
            self._reads = 0
            self._on_rest()

    def _outcome(self, job: WriteJob) -> JobResult:
        try:
            return job, job.work(self._connection), None
        except Exception as error:  # noqa: BLE001 - told to who waits
            return job, None, error

    def page(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool
    ) -> Page:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            marks, last_mark = marks_since(connection, partition, lo_ms, hi_ms, cursor, self._on_corrupt)
            groups: list[RowGroup] = []
            left_bytes, last = limit_bytes, cursor
            for stored in read_groups(connection, partition, cursor, keys_only=keys_only):
                if left_bytes <= 0:
                    return Page(groups, marks, last, done=False)
                last = stored.id
                if stored.overlaps(lo_ms - partition.bucket_ms, hi_ms - partition.bucket_ms):
                    left_bytes -= self._take(stored.open, lo_ms, hi_ms, groups)
            return Page(groups, marks, max(last, last_mark), done=True)
        finally:
            connection.execute("COMMIT")

    def _take(self, opened: Callable[[], RowGroup], lo_ms: int, hi_ms: int, groups: list[RowGroup]) -> int:
        """Adds the group's rows of the range; returns their size."""
        try:
            part = between(opened(), lo_ms, hi_ms)
        except CorruptRow as error:
            self._on_corrupt(error)
            return 0
        if len(part):
            groups.append(part)
        return part.size_bytes

    def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> list[Found]:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            rows = self._index.find(partition, keys)
            return list(map(Found, rows, marks_on(connection, partition, keys, self._mark_index)))
        finally:
            connection.execute("COMMIT")

    def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        connection = self._connection
        connection.execute("BEGIN")
        try:
            rows, through = self._order.stretch(partition, after, hi_ms, most_rows)
            keys = list(dict.fromkeys((key.position_ms, key.digest) for key in rows.keys()))
            marks = chain.from_iterable(marks_on(connection, partition, keys, self._mark_index))
            return Stretch(rows, list(marks), through)
        finally:
            connection.execute("COMMIT")

    def look(self, asked: Look) -> Looked:
        return look(self._connection, self._index, self._mark_index, asked)

    def forget(self, partition: Partition) -> None:
        """It was dropped."""
        self._index.forget(partition)
        self._mark_index.forget(partition)
        self._order.forget(partition)
        self._groups.clear()

    def close(self) -> None:
        self._closed = True
        self._jobs.end()
        self._thread.join()
        self._connection.close()
