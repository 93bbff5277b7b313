"""The outbox in a SQLite database: the same four tables, named timerd_outbox, timerd_sealed and so on.

Ids are in the order of commits there, for one transaction writes at a time. What blocks has a thread of its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from timerd.outbox.messages import rows_in
from timerd.outbox.outcomes import SendOutcome
from timerd.outbox.ports import (
    MOST_COUNTED,
    DatabaseAway,
    DatabaseWrong,
    OutboxFacts,
    RefusedFact,
    SealedFact,
    facts_of,
)
from timerd.outbox.rows import OutboxRow, RefusedRow, SealedBatch
from timerd.outbox.sealed_keys import SealedKeys
from timerd.outbox.sealing import (
    MOST_BYTES,
    MOST_ROWS,
    NOTHING,
    NUMBER_STEP,
    LeftOut,
    QualifiedName,
    anew,
    halves,
    is_clogged,
    rest,
    sealed,
)
from timerd.outbox.sqlite_schema import statements

_BUSY_S = 5.0
T = TypeVar("T")
_COLUMNS = "verb, namespace, queue, fire_at_ms, key, payload, options"
_AS_ROW = (
    "verb, namespace, coalesce(queue, ''), coalesce(fire_at_ms, 0), coalesce(key, ''), coalesce(payload, x''), "
    "coalesce(options, '')"
)
_BATCH = "no, made_ms, verb, tasks, is_ordered, namespace, request"
_SEALED = f"INSERT INTO timerd_sealed ({_BATCH}, owner, until_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PUT = f"INSERT INTO timerd_outbox ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_REFUSED = f"INSERT INTO timerd_refused ({_COLUMNS}, problem, reason, refused_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class SqliteOutbox:
    """Opens the file with its first call. `name`: where it is."""

    def __init__(self, path: Path) -> None:
        self.name = f"the SQLite database {path}"
        self._path = path
        self._thread = ThreadPoolExecutor(1, "timerd outbox")
        self._opened: sqlite3.Connection | None = None
        self._keys = SealedKeys()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._within, work))

    def _within(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._transaction() as database:
            return work(database)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Committed, with fsync, where nothing is raised."""
        try:
            database = self._opened = self._opened or self._open()
            with database:
                database.execute("BEGIN IMMEDIATE")
                yield database
        except sqlite3.Error as error:
            raise self._told(error) from error

    def _open(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise DatabaseWrong(f"There is no file {self._path}: name the database of your application.")
        database = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA synchronous = FULL")
        return database

    def _told(self, error: sqlite3.Error) -> DatabaseAway | DatabaseWrong:
        if "no such table" in str(error) or "no such column" in str(error):
            return DatabaseWrong(
                f"There is no outbox in {self.name} ({error}): make it by `timerd outbox init --database ...`."
            )
        return DatabaseAway(f"{self.name} does not answer as it should: {error}.")

    async def seal(self, owner: str, lease_s: float, left_out: LeftOut = NOTHING) -> tuple[list[SealedBatch], int]:
        return await self._run(partial(_seal, owner, lease_s, left_out, self._keys))

    async def take_over(self, owner: str, lease_s: float, in_hand: Collection[int]) -> list[SealedBatch]:
        return await self._run(partial(_take_over, owner, lease_s, frozenset(in_hand)))

    async def keep(self, owner: str, lease_s: float) -> None:
        await self._run(partial(_keep, owner, lease_s))

    async def note(self, batch: SealedBatch, why: str) -> None:
        noted = ("UPDATE timerd_sealed SET why = ? WHERE no = ?", (why, batch.no))
        await self._run(lambda database: database.execute(*noted))

    async def done(self, batch: SealedBatch, refused: Sequence[RefusedRow]) -> None:
        await self._run(lambda database: _write_refused(database, refused) if _gone(database, batch) else None)

    async def anew(self, batch: SealedBatch) -> SealedBatch | None:
        return await self._run(partial(_anew, batch))

    async def halve(self, batch: SealedBatch, owner: str, lease_s: float) -> list[SealedBatch]:
        return await self._run(partial(_halve, batch, owner, lease_s))

    async def rest(self, batch: SealedBatch, outcome: SendOutcome, owner: str, lease_s: float) -> list[SealedBatch]:
        return await self._run(partial(_rest, batch, outcome, owner, lease_s))

    async def make(self) -> None:
        await self._run(lambda database: [database.execute(each) for each in statements()])

    async def facts(self) -> OutboxFacts:
        return await self._run(_facts)

    async def refused(self, limit: int) -> list[RefusedFact]:
        return await self._run(partial(_refused, limit))

    async def settle_refused(self, numbers: Sequence[int], *, again: bool) -> int:
        return await self._run(partial(_settle_refused, numbers, again=again))

    async def reset(self, *, discard: bool) -> int:
        return await self._run(partial(_reset, discard=discard))

    async def put(self, rows: Sequence[OutboxRow]) -> None:
        await self._run(lambda database: database.executemany(_PUT, [_values(row) for row in rows]))

    async def close(self) -> None:
        self._thread.shutdown()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _one(database: sqlite3.Connection, statement: str, *values: object) -> Any:  # noqa: ANN401 - a column
    row = database.execute(statement, values).fetchone()
    return row[0] if row else None


def _seal(
    owner: str, lease_s: float, left_out: LeftOut, keys: SealedKeys, database: sqlite3.Connection
) -> tuple[list[SealedBatch], int]:
    outbox, no, last_ms = database.execute("SELECT outbox, next_no, made_ms FROM timerd_relay").fetchone()
    made_ms = max(_now_ms(), last_ms + 1)
    busy = _busy(database, keys)
    sealing = sealed(outbox, no, made_ms, _looked(database, left_out, busy), busy)
    if not sealing.taken:
        return [], 0
    database.executemany("DELETE FROM timerd_outbox WHERE id = ?", [(each,) for each in sealing.taken])
    _write_refused(database, sealing.refused)
    _write_sealed(database, sealing.batches, owner, lease_s)
    next_no = no + NUMBER_STEP * max(1, len(sealing.batches))
    database.execute("UPDATE timerd_relay SET next_no = ?, made_ms = ?", (next_no, made_ms))
    return sealing.batches, len(sealing.taken)


def _busy(database: sqlite3.Connection, keys: SealedKeys) -> frozenset[QualifiedName]:
    """The keys of all batches that are left. They are read, and not noted before the commit."""
    left = [no for (no,) in database.execute("SELECT no FROM timerd_sealed WHERE is_ordered")]
    if unknown := keys.unknown(left):
        keys.learn(_read(database, unknown))
    return keys.busy()


def _looked(database: sqlite3.Connection, left_out: LeftOut, busy: frozenset[QualifiedName]) -> list[OutboxRow]:
    rows = list(_lowest(database, left_out))
    return list(_lowest(database, left_out, busy)) if is_clogged(rows, busy) else rows


def _lowest(
    database: sqlite3.Connection, left_out: LeftOut, busy: frozenset[QualifiedName] = frozenset()
) -> Iterator[OutboxRow]:
    """All up to some id, by the bytes of their payloads, but what is left out and later rows of its keys."""
    rows, size_bytes, behind = 0, 0, set(busy)
    for values in database.execute(f"SELECT id, {_AS_ROW} FROM timerd_outbox ORDER BY id"):
        row = OutboxRow(*values)
        name = (row.namespace, row.key)
        if row.namespace in left_out.namespaces or (row.namespace, row.queue) in left_out.queues or name in behind:
            behind.update([name] if row.key else [])
            continue
        yield row
        rows, size_bytes = rows + 1, size_bytes + len(row.payload)
        if rows == MOST_ROWS or size_bytes >= MOST_BYTES:
            return


def _write_sealed(database: sqlite3.Connection, batches: Sequence[SealedBatch], owner: str, lease_s: float) -> None:
    until_ms = _now_ms() + round(lease_s * 1000)
    database.executemany(_SEALED, [(*batch, owner, until_ms) for batch in batches])


def _take_over(owner: str, lease_s: float, in_hand: Collection[int], database: sqlite3.Connection) -> list[SealedBatch]:
    wanted = f"SELECT {_BATCH} FROM timerd_sealed WHERE owner = ? OR until_ms < ? ORDER BY no"
    found = [_batch(each) for each in database.execute(wanted, (owner, _now_ms())) if each[0] not in in_hand][:8]
    until_ms = _now_ms() + round(lease_s * 1000)
    for batch in found:
        database.execute("UPDATE timerd_sealed SET owner = ?, until_ms = ? WHERE no = ?", (owner, until_ms, batch.no))
    return found


def _read(database: sqlite3.Connection, numbers: Sequence[int]) -> list[SealedBatch]:
    wanted = f"SELECT {_BATCH} FROM timerd_sealed WHERE no IN ({', '.join('?' * len(numbers))}) ORDER BY no"
    return [_batch(each) for each in database.execute(wanted, numbers)]


def _batch(values: Sequence[Any]) -> SealedBatch:
    no, made_ms, verb, tasks, is_ordered, namespace, request = values
    return SealedBatch(no, made_ms, verb, tasks, bool(is_ordered), namespace, request)


def _keep(owner: str, lease_s: float, database: sqlite3.Connection) -> None:
    lease_ms, now_ms = round(lease_s * 1000), _now_ms()
    database.execute(
        "UPDATE timerd_sealed SET until_ms = ? WHERE owner = ? AND (? = 0 OR until_ms < ?)",
        (now_ms + lease_ms, owner, lease_ms, now_ms + lease_ms * 2 // 3),
    )


def _gone(database: sqlite3.Connection, batch: SealedBatch) -> bool:
    """Whether it was there and the same one."""
    deleted = database.execute("DELETE FROM timerd_sealed WHERE no = ? AND made_ms = ?", (batch.no, batch.made_ms))
    return deleted.rowcount == 1


def _moment(database: sqlite3.Connection) -> tuple[str, int]:
    """The outbox's id, and a time that is later than that of each request before."""
    outbox, last_ms = database.execute("SELECT outbox, made_ms FROM timerd_relay").fetchone()
    made_ms = max(_now_ms(), last_ms + 1)
    database.execute("UPDATE timerd_relay SET made_ms = ?", (made_ms,))
    return outbox, made_ms


def _anew(batch: SealedBatch, database: sqlite3.Connection) -> SealedBatch | None:
    outbox, made_ms = _moment(database)
    again = anew(outbox, batch, made_ms)
    changed = database.execute(
        "UPDATE timerd_sealed SET made_ms = ?, request = ? WHERE no = ? AND made_ms = ?",
        (made_ms, again.request, batch.no, batch.made_ms),
    )
    return again if changed.rowcount else None


def _halve(batch: SealedBatch, owner: str, lease_s: float, database: sqlite3.Connection) -> list[SealedBatch]:
    outbox, made_ms = _moment(database)
    if not _gone(database, batch):
        return []
    both = halves(outbox, batch.no, made_ms, rows_in(batch))
    _write_sealed(database, both, owner, lease_s)
    return both


def _rest(
    batch: SealedBatch,
    outcome: SendOutcome,
    owner: str,
    lease_s: float,
    database: sqlite3.Connection,
) -> list[SealedBatch]:
    outbox, made_ms = _moment(database)
    if not _gone(database, batch):
        return []
    _write_refused(database, outcome.refused)
    batches = [rest(outbox, batch, made_ms, outcome)]
    _write_sealed(database, batches, owner, lease_s)
    return batches


def _facts(database: sqlite3.Connection) -> OutboxFacts:
    lowest = f"SELECT namespace, inserted_ms FROM timerd_outbox ORDER BY id LIMIT {MOST_COUNTED}"
    waiting = database.execute(f"SELECT namespace, count(*), min(inserted_ms) FROM ({lowest}) GROUP BY namespace")
    sealed_now = database.execute(
        "SELECT no, tasks, made_ms, owner, until_ms, namespace, why FROM timerd_sealed ORDER BY no"
    )
    return facts_of(
        _one(database, "SELECT outbox FROM timerd_relay"),
        _now_ms(),
        waiting.fetchall(),
        [SealedFact(*each) for each in sealed_now],
        database.execute("SELECT namespace, count(*) FROM timerd_refused GROUP BY namespace").fetchall(),
    )


def _refused(limit: int, database: sqlite3.Connection) -> list[RefusedFact]:
    found = database.execute(
        f"SELECT number, refused_ms, 0, {_AS_ROW}, problem, reason FROM timerd_refused ORDER BY number LIMIT ?",
        (limit,),
    )
    return [RefusedFact(each[0], each[1], RefusedRow(OutboxRow(*each[2:10]), *each[10:])) for each in found]


def _settle_refused(numbers: Sequence[int], database: sqlite3.Connection, *, again: bool) -> int:
    settled = 0
    for number in numbers:
        if again:
            chosen = f"SELECT {_COLUMNS} FROM timerd_refused WHERE number = ?"
            database.execute(f"INSERT INTO timerd_outbox ({_COLUMNS}) {chosen}", (number,))
        settled += database.execute("DELETE FROM timerd_refused WHERE number = ?", (number,)).rowcount
    return settled


def _reset(database: sqlite3.Connection, *, discard: bool) -> int:
    database.execute("UPDATE timerd_relay SET outbox = ?", (str(uuid.uuid4()),))
    if not discard:
        return 0
    sent = _one(database, "SELECT coalesce(sum(tasks), 0) FROM timerd_sealed")
    database.execute("DELETE FROM timerd_sealed")
    return int(sent + database.execute("DELETE FROM timerd_outbox").rowcount)


def _write_refused(database: sqlite3.Connection, refused: Sequence[RefusedRow]) -> None:
    now_ms = _now_ms()
    database.executemany(_REFUSED, [(*_values(each.row), each.problem, each.reason, now_ms) for each in refused])


def _values(row: OutboxRow) -> tuple[Any, ...]:
    """What a verb has no use for is NULL."""
    fire_at_ms = None if not row.queue and not row.fire_at_ms else row.fire_at_ms
    payload = row.payload if row.queue else None
    return int(row.verb), row.namespace, row.queue or None, fire_at_ms, row.key or None, payload, row.options or None
