"""The outbox in MySQL and MariaDB: the same four tables, named timerd_outbox, timerd_sealed and so on.

Each call is one transaction on one connection, which has a thread of its own. Transactions read what is committed at
each statement, as in PostgreSQL. A server whose commits a crash may undo is not used: a batch that was sent would be
sealed again, with other bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pymysql

from timerd.outbox.low_mark import LowMark
from timerd.outbox.messages import rows_in
from timerd.outbox.mysql_schema import MOST_WHY, NOW_MS, statements
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
    Sealing,
    anew,
    halves,
    is_clogged,
    rest,
    sealed,
)

T = TypeVar("T")
# Of PyMySQL, which has no types.
MysqlCursor = Any
_CONNECT_S, _COMMAND_S = 10, 60
# A relay that stands still within a transaction holds up the others no longer than the first. A connection that was not
# used for so long is not used again, for the server may be about to close it.
_IDLE_S, _STALE_S = 10, 5.0
_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    f"SET SESSION innodb_lock_wait_timeout = 5, SESSION wait_timeout = {_IDLE_S}",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
)
_COLUMNS = "verb, namespace, queue, fire_at_ms, `key`, payload, options"
_AS_ROW = (
    "verb, namespace, COALESCE(queue, ''), COALESCE(fire_at_ms, 0), COALESCE(`key`, ''), COALESCE(payload, ''), "
    "COALESCE(options, '')"
)
# The bytes of payloads decide how many rows are read: always all up to some id, so that no row of a key is left out.
_FIRST = f"""SELECT id, {_AS_ROW} FROM (
    SELECT lowest.*, SUM(COALESCE(LENGTH(payload), 0)) OVER (ORDER BY id) - COALESCE(LENGTH(payload), 0) AS before_it
    FROM (SELECT o.* FROM timerd_outbox AS o {{}} ORDER BY o.id LIMIT {MOST_ROWS}) AS lowest
) AS summed WHERE before_it < {MOST_BYTES} ORDER BY id"""
_LOWEST = _FIRST.format("WHERE o.id > %s AND o.namespace NOT IN %s")
# Without queues, later rows of the keys of theirs, and keys, all of them behind their namespaces.
_LOWEST_BESIDE = _FIRST.format(
    """LEFT JOIN (
    SELECT namespace, `key`, MIN(id) AS first_id FROM timerd_outbox
    WHERE CONCAT(namespace, ' ', queue) IN %s AND `key` IS NOT NULL GROUP BY namespace, `key`
) AS held ON held.namespace = o.namespace AND held.`key` = o.`key` AND held.first_id < o.id
WHERE o.namespace NOT IN %s AND held.first_id IS NULL
    AND COALESCE(CONCAT(o.namespace, ' ', o.queue) NOT IN %s, TRUE)
    AND COALESCE(CONCAT(o.namespace, ' ', o.`key`) NOT IN %s, TRUE)"""
)
_BATCH = "no, made_ms, verb, tasks, is_ordered, namespace, request"
_SEALED = f"""INSERT INTO timerd_sealed ({_BATCH}, owner, until_ms)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, {NOW_MS} + %s)"""
_TO_TAKE_OVER = f"""SELECT {_BATCH} FROM timerd_sealed
WHERE (owner <> %s AND until_ms < {NOW_MS}) OR (owner = %s AND no NOT IN %s)
ORDER BY no LIMIT 8 FOR UPDATE SKIP LOCKED"""
_TAKE_OVER = f"UPDATE timerd_sealed SET owner = %s, until_ms = {NOW_MS} + %s WHERE no IN %s"
# Only what has used up a third of its lease; all of them where they are to end.
_KEEP = f"""UPDATE timerd_sealed SET until_ms = {NOW_MS} + %s
WHERE owner = %s AND (%s = 0 OR until_ms < {NOW_MS} + %s)"""
_PUT = f"INSERT INTO timerd_outbox ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)"
_REFUSED = f"INSERT INTO timerd_refused ({_COLUMNS}, problem, reason) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_WAITING_FACTS = f"""SELECT namespace, COUNT(*), MIN(inserted_ms)
FROM (SELECT namespace, inserted_ms FROM timerd_outbox ORDER BY id LIMIT {MOST_COUNTED}) AS lowest GROUP BY namespace"""
# No such table or column; then: a user, a password or a privilege that is missing.
_MISSING, _WRONG = frozenset({1146, 1054}), frozenset({1044, 1045, 1049, 1142, 1143, 1698})
# Stands for nothing in a list that must have something: no number and no name.
_NO_NUMBER, _NO_NAME = -1, ""


class MysqlOutbox:
    """Connects with its first call, and anew after a failure. `given`: what PyMySQL connects by; `name`: where it is,
    without the password."""

    def __init__(self, given: Mapping[str, Any], name: str) -> None:
        self.name = name
        self._given = given
        self._thread = ThreadPoolExecutor(1, "timerd outbox")
        self._connection: Any = None
        self._used_s = 0.0
        self._mark, self._keys = LowMark(), SealedKeys()

    async def _run(self, work: Callable[[MysqlCursor], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._within, work))

    def _within(self, work: Callable[[MysqlCursor], T]) -> T:
        with self._transaction() as database:
            return work(database)

    @contextmanager
    def _transaction(self) -> Iterator[MysqlCursor]:
        """Committed where nothing is raised. A connection that failed in any way is given up."""
        try:
            if time.monotonic() - self._used_s > _STALE_S:
                self._give_up()
            database = self._connection = self._connection or self._connected()
            with database.cursor() as cursor:
                database.begin()
                yield cursor
                database.commit()
            self._used_s = time.monotonic()
        except BaseException as error:
            self._give_up()
            if isinstance(error, pymysql.MySQLError | OSError):
                raise self._told(error) from error
            raise

    def _connected(self) -> Any:  # noqa: ANN401 - PyMySQL has no types
        connection = pymysql.connect(
            **self._given,
            charset="utf8mb4",
            autocommit=False,
            connect_timeout=_CONNECT_S,
            read_timeout=_COMMAND_S,
            write_timeout=_COMMAND_S,
        )
        with connection.cursor() as cursor:
            for each in _SESSION:
                cursor.execute(each)
            cursor.execute("SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog")
            self._refuse_what_a_crash_undoes(*cursor.fetchone())
        return connection

    def _refuse_what_a_crash_undoes(self, flushed: int, has_log: int, synced: int) -> None:
        if flushed != 1 or (has_log and synced != 1):
            raise DatabaseWrong(
                f"A crash may undo commits of {self.name}, and an outbox would send their tasks twice: set "
                "innodb_flush_log_at_trx_commit to 1, and sync_binlog to 1 where there is a binary log."
            )

    def _give_up(self) -> None:
        self._keys.forget()
        if self._connection is not None:
            with suppress(pymysql.MySQLError, OSError):
                self._connection.close()
            self._connection = None

    def _told(self, error: Exception) -> DatabaseAway | DatabaseWrong:
        code = error.args[0] if error.args else 0
        said = str(error.args[-1] if error.args else "").strip() or type(error).__name__
        if code in _MISSING:
            return DatabaseWrong(
                f"There is no outbox in {self.name} ({said}): make it by `timerd outbox init --database ...`."
            )
        if code in _WRONG:
            return DatabaseWrong(f"{self.name} refuses: {said}.")
        return DatabaseAway(
            f"{self.name} does not answer as it should: {said}. Look whether it runs, and whether the address is right."
        )

    async def seal(self, owner: str, lease_s: float, left_out: LeftOut = NOTHING) -> tuple[list[SealedBatch], int]:
        sealing, left = await self._run(partial(_seal, owner, lease_s, left_out, self._mark, self._keys))
        if sealing.taken:
            self._mark.took(sealing.taken, left)
            self._keys.learn(batch for batch in sealing.batches if batch.is_ordered)
        return sealing.batches, len(sealing.taken)

    async def take_over(self, owner: str, lease_s: float, in_hand: Collection[int]) -> list[SealedBatch]:
        return await self._run(partial(_take_over, owner, lease_s, in_hand))

    async def keep(self, owner: str, lease_s: float) -> None:
        lease_ms = round(lease_s * 1000)
        await self._run(lambda database: database.execute(_KEEP, (lease_ms, owner, lease_ms, lease_ms * 2 // 3)))

    async def note(self, batch: SealedBatch, why: str) -> None:
        noted = ("UPDATE timerd_sealed SET why = %s WHERE no = %s", (why[:MOST_WHY], batch.no))
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
        return await self._run(partial(_settle_refused, [*numbers, _NO_NUMBER], again=again))

    async def reset(self, *, discard: bool) -> int:
        return await self._run(partial(_reset, discard=discard))

    async def put(self, rows: Sequence[OutboxRow]) -> None:
        await self._run(lambda database: database.executemany(_PUT, [_values(row) for row in rows]))

    async def close(self) -> None:
        self._thread.shutdown()
        self._give_up()


def _all(database: MysqlCursor, statement: str, *values: object) -> list[Any]:
    database.execute(statement, values)
    return list(database.fetchall())


def _one(database: MysqlCursor, statement: str, *values: object) -> Any:  # noqa: ANN401 - a row, PyMySQL has no types
    database.execute(statement, values)
    return database.fetchone()


def _seal(
    owner: str, lease_s: float, left_out: LeftOut, mark: LowMark, keys: SealedKeys, database: MysqlCursor
) -> tuple[Sealing, list[int]]:
    """And the ids of rows that were seen and left."""
    # One relay at a time, so that numbers follow ids. What comes after it sees what is committed by then.
    outbox, no, last_ms = _one(database, "SELECT outbox, next_no, made_ms FROM timerd_relay FOR UPDATE")
    made_ms = max(_now_ms(database), last_ms + 1)
    busy = _busy(database, keys)
    rows = _rows(database, mark, left_out, busy)
    sealing = sealed(outbox, no, made_ms, rows, busy)
    if sealing.taken:
        database.execute("DELETE FROM timerd_outbox WHERE id IN %s", (sealing.taken,))
        _write_refused(database, sealing.refused)
        _write_sealed(database, sealing.batches, owner, lease_s)
        next_no = no + NUMBER_STEP * max(1, len(sealing.batches))
        database.execute("UPDATE timerd_relay SET next_no = %s, made_ms = %s", (next_no, made_ms))
    return sealing, [*{row.id for row in rows}.difference(sealing.taken)]


def _busy(database: MysqlCursor, keys: SealedKeys) -> frozenset[QualifiedName]:
    """The keys of all batches that are left, as nobody else seals or halves meanwhile."""
    left = [no for (no,) in _all(database, "SELECT no FROM timerd_sealed WHERE is_ordered")]
    if unknown := keys.unknown(left):
        keys.learn(map(_batch, _all(database, f"SELECT {_BATCH} FROM timerd_sealed WHERE no IN %s", unknown)))
    return keys.busy()


def _rows(database: MysqlCursor, mark: LowMark, left_out: LeftOut, busy: frozenset[QualifiedName]) -> list[OutboxRow]:
    if not left_out.queues:
        above = mark.above(time.monotonic(), left_out)
        rows = _looked(database, above, left_out)
        if not mark.is_enough(above, rows):
            rows = _looked(database, 0, left_out)
        if not is_clogged(rows, busy):
            return rows
    mark.look_again()
    return _looked_beside(database, left_out, busy)


def _looked(database: MysqlCursor, above: int, left_out: LeftOut) -> list[OutboxRow]:
    found = _all(database, _LOWEST, above, [*left_out.namespaces, _NO_NAME])
    return [OutboxRow(*record) for record in found]


def _looked_beside(database: MysqlCursor, left_out: LeftOut, busy: frozenset[QualifiedName]) -> list[OutboxRow]:
    queues, keys = ([*map(" ".join, each), _NO_NAME] for each in (left_out.queues, busy))
    found = _all(database, _LOWEST_BESIDE, queues, [*left_out.namespaces, _NO_NAME], queues, keys)
    return [OutboxRow(*record) for record in found]


def _now_ms(database: MysqlCursor) -> int:
    return int(_one(database, f"SELECT {NOW_MS}")[0])


def _write_sealed(database: MysqlCursor, batches: Sequence[SealedBatch], owner: str, lease_s: float) -> None:
    for batch in batches:
        database.execute(_SEALED, (*batch, owner, round(lease_s * 1000)))


def _take_over(owner: str, lease_s: float, in_hand: Collection[int], database: MysqlCursor) -> list[SealedBatch]:
    found = list(map(_batch, _all(database, _TO_TAKE_OVER, owner, owner, [*in_hand, _NO_NUMBER])))
    if found:
        database.execute(_TAKE_OVER, (owner, round(lease_s * 1000), [batch.no for batch in found]))
    return found


def _batch(values: Sequence[Any]) -> SealedBatch:
    no, made_ms, verb, tasks, is_ordered, namespace, request = values
    return SealedBatch(no, made_ms, verb, tasks, bool(is_ordered), namespace, request)


def _gone(database: MysqlCursor, batch: SealedBatch) -> bool:
    """Whether it was there and the same one."""
    deleted = "DELETE FROM timerd_sealed WHERE no = %s AND made_ms = %s"
    return bool(database.execute(deleted, (batch.no, batch.made_ms)))


def _moment(database: MysqlCursor) -> tuple[str, int]:
    """The outbox's id, and a time that is later than that of each request before."""
    outbox, last_ms = _one(database, "SELECT outbox, made_ms FROM timerd_relay FOR UPDATE")
    made_ms = max(_now_ms(database), last_ms + 1)
    database.execute("UPDATE timerd_relay SET made_ms = %s", (made_ms,))
    return outbox, made_ms


def _anew(batch: SealedBatch, database: MysqlCursor) -> SealedBatch | None:
    outbox, made_ms = _moment(database)
    again = anew(outbox, batch, made_ms)
    changed = database.execute(
        "UPDATE timerd_sealed SET made_ms = %s, request = %s WHERE no = %s AND made_ms = %s",
        (made_ms, again.request, batch.no, batch.made_ms),
    )
    return again if changed else None


def _halve(batch: SealedBatch, owner: str, lease_s: float, database: MysqlCursor) -> list[SealedBatch]:
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
    database: MysqlCursor,
) -> list[SealedBatch]:
    outbox, made_ms = _moment(database)
    if not _gone(database, batch):
        return []
    _write_refused(database, outcome.refused)
    batches = [rest(outbox, batch, made_ms, outcome)]
    _write_sealed(database, batches, owner, lease_s)
    return batches


def _facts(database: MysqlCursor) -> OutboxFacts:
    outbox, now_ms = _one(database, f"SELECT outbox, {NOW_MS} FROM timerd_relay")
    waiting = _all(database, _WAITING_FACTS)
    sealed_now = _all(
        database, "SELECT no, tasks, made_ms, owner, until_ms, namespace, why FROM timerd_sealed ORDER BY no"
    )
    refused = _all(database, "SELECT namespace, COUNT(*) FROM timerd_refused GROUP BY namespace")
    return facts_of(outbox, now_ms, waiting, [SealedFact(*each) for each in sealed_now], refused)


def _refused(limit: int, database: MysqlCursor) -> list[RefusedFact]:
    wanted = f"SELECT number, refused_ms, 0, {_AS_ROW}, problem, reason FROM timerd_refused ORDER BY number LIMIT %s"
    found = _all(database, wanted, limit)
    return [RefusedFact(each[0], each[1], RefusedRow(OutboxRow(*each[2:10]), *each[10:])) for each in found]


def _settle_refused(numbers: Sequence[int], database: MysqlCursor, *, again: bool) -> int:
    if again:
        chosen = f"SELECT {_COLUMNS} FROM timerd_refused WHERE number IN %s ORDER BY number"
        database.execute(f"INSERT INTO timerd_outbox ({_COLUMNS}) {chosen}", (numbers,))
    return int(database.execute("DELETE FROM timerd_refused WHERE number IN %s", (numbers,)))


def _reset(database: MysqlCursor, *, discard: bool) -> int:
    database.execute("UPDATE timerd_relay SET outbox = UUID()")
    if not discard:
        return 0
    [sent] = _one(database, "SELECT COALESCE(SUM(tasks), 0) FROM timerd_sealed")
    database.execute("DELETE FROM timerd_sealed")
    return int(sent) + int(database.execute("DELETE FROM timerd_outbox"))


def _write_refused(database: MysqlCursor, refused: Sequence[RefusedRow]) -> None:
    if refused:
        database.executemany(_REFUSED, [(*_values(each.row), each.problem, each.reason) for each in refused])


def _values(row: OutboxRow) -> tuple[Any, ...]:
    """What a verb has no use for is NULL."""
    fire_at_ms = None if not row.queue and not row.fire_at_ms else row.fire_at_ms
    payload = row.payload if row.queue else None
    return int(row.verb), row.namespace, row.queue or None, fire_at_ms, row.key or None, payload, row.options or None
