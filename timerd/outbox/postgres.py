"""The outbox in PostgreSQL, over asyncpg.

Each call is one transaction on one connection, without advisory locks, LISTEN or named statements: a pooler that
gives out connections by the transaction (PgBouncer) may stand in between. Commits are synchronous whatever the
database's default, for a batch that is sent must not be undone by a crash.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from timerd.outbox.low_mark import LowMark
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
from timerd.outbox.postgres_schema import DDL
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

# A relay that stands still within a transaction holds up the others no longer than that.
_BEGIN = """BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s';
SET LOCAL idle_in_transaction_session_timeout = '10s'"""
_CONNECT_S, _COMMAND_S = 10.0, 60.0
_NOW_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_AS_ROW = (
    "id, verb, namespace, coalesce(queue, ''), coalesce(ceil(extract(epoch FROM fire_at) * 1000)::bigint, 0), "
    "coalesce(key, ''), coalesce(payload, ''), coalesce(options::text, '')"
)
# The bytes of payloads decide how many rows are read: always all up to some id, so that no row of a key is left out.
_FIRST = f"""SELECT {_AS_ROW} FROM (
    SELECT *, sum(coalesce(octet_length(payload), 0)) OVER (ORDER BY id) - coalesce(octet_length(payload), 0) AS before
    FROM (%s ORDER BY id LIMIT {MOST_ROWS}) AS lowest
) AS summed WHERE before < {MOST_BYTES} ORDER BY id"""
_LOWEST = _FIRST % "SELECT * FROM timerd.outbox WHERE id > $1 AND namespace <> ALL ($2::text[])"
# Without namespaces ($1), queues ($2) with later rows of their keys, and keys ($3); these two behind their namespaces.
_LOWEST_BESIDE = (
    _FIRST
    % """SELECT o.* FROM timerd.outbox AS o LEFT JOIN (
    SELECT namespace, key, min(id) AS first_id FROM timerd.outbox
    WHERE namespace || ' ' || queue = ANY ($2::text[]) AND key IS NOT NULL GROUP BY namespace, key
) AS held ON held.namespace = o.namespace AND held.key = o.key AND held.first_id < o.id
WHERE o.namespace <> ALL ($1::text[]) AND held.first_id IS NULL
    AND coalesce(o.namespace || ' ' || o.queue <> ALL ($2::text[]), true)
    AND coalesce(o.namespace || ' ' || o.key <> ALL ($3::text[]), true)"""
)
_BATCH = "no, made_ms, verb, tasks, is_ordered, namespace, request"
_SEALED = f"""INSERT INTO timerd.sealed ({_BATCH}, owner, until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, clock_timestamp() + $9 * interval '1 second')"""
_TAKE_OVER = f"""UPDATE timerd.sealed SET owner = $1, until = clock_timestamp() + $2 * interval '1 second'
WHERE no IN (
    SELECT no FROM timerd.sealed
    WHERE (owner <> $1 AND until < clock_timestamp()) OR (owner = $1 AND no <> ALL ($3::bigint[]))
    ORDER BY no LIMIT 8 FOR UPDATE SKIP LOCKED
) RETURNING {_BATCH}"""
# Only what has used up a third of its lease; all of them where they are to end.
_KEEP = """UPDATE timerd.sealed SET until = clock_timestamp() + $2 * interval '1 second'
WHERE owner = $1 AND ($2 = 0 OR until < clock_timestamp() + $2 * interval '0.67 second')"""
_ORDERED = "SELECT no FROM timerd.sealed WHERE is_ordered"
_READ = f"SELECT {_BATCH} FROM timerd.sealed WHERE no = ANY ($1::bigint[]) ORDER BY no"
_REFUSED = """INSERT INTO timerd.refused (verb, namespace, queue, fire_at, key, payload, options, problem, reason)
VALUES ($1, $2, nullif($3, ''), to_timestamp(nullif($4::bigint, 0) / 1000.0), nullif($5, ''), $6, $7::jsonb, $8, $9)"""
_PUT = """INSERT INTO timerd.outbox (verb, namespace, queue, fire_at, key, payload, options)
VALUES ($1, $2, nullif($3, ''), to_timestamp(nullif($4::bigint, 0) / 1000.0), nullif($5, ''), $6, $7::jsonb)"""
_AGAIN = """INSERT INTO timerd.outbox (verb, namespace, queue, fire_at, key, payload, options)
SELECT verb, namespace, queue, fire_at, key, payload, options FROM timerd.refused WHERE number = ANY ($1::bigint[])
ORDER BY number"""
_FACTS = f"SELECT outbox::text, {_NOW_MS} FROM timerd.relay"
_WAITING_FACTS = f"""SELECT namespace, count(*), (extract(epoch FROM min(inserted_at)) * 1000)::bigint
FROM (SELECT namespace, inserted_at FROM timerd.outbox ORDER BY id LIMIT {MOST_COUNTED}) AS lowest GROUP BY namespace"""
_SEALED_FACTS = """SELECT no, tasks, made_ms, owner, (extract(epoch FROM until) * 1000)::bigint, namespace, why
FROM timerd.sealed ORDER BY no"""
_REFUSED_COUNTS = "SELECT namespace, count(*) FROM timerd.refused GROUP BY namespace"
_REFUSED_FACTS = f"""SELECT number, (extract(epoch FROM refused_at) * 1000)::bigint, {_AS_ROW.replace("id,", "0,", 1)},
    problem, reason FROM timerd.refused ORDER BY number LIMIT $1"""
_WRONG = (
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedColumnError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)
# The last is what a connection says that was cut in the midst of an answer.
_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_MISSING = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedColumnError)


class PostgresOutbox:
    """Connects with its first call, and anew after a failure. `name`: where it is, without the password."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._connection: Any = None
        self._turn = asyncio.Lock()
        self._mark = LowMark()
        self._keys = SealedKeys()

    async def seal(self, owner: str, lease_s: float, left_out: LeftOut = NOTHING) -> tuple[list[SealedBatch], int]:
        async with self._transaction() as db:
            # One relay at a time, so that numbers follow ids. The look is a statement after it: it sees what is
            # committed by then.
            outbox, no, last_ms, now_ms = await db.fetchrow(
                f"SELECT outbox::text, next_no, made_ms, {_NOW_MS} FROM timerd.relay FOR UPDATE"
            )
            made_ms = max(now_ms, last_ms + 1)
            busy = await self._busy(db)
            rows = await self._rows(db, left_out, busy)
            sealing = sealed(outbox, no, made_ms, rows, busy)
            if not sealing.taken:
                return [], 0
            await db.execute("DELETE FROM timerd.outbox WHERE id = ANY ($1::bigint[])", sealing.taken)
            await _write_refused(db, sealing.refused)
            await _write_sealed(db, sealing.batches, owner, lease_s)
            next_no = no + NUMBER_STEP * max(1, len(sealing.batches))
            await db.execute("UPDATE timerd.relay SET next_no = $1, made_ms = $2", next_no, made_ms)
        self._mark.took(sealing.taken, [*{row.id for row in rows}.difference(sealing.taken)])
        self._keys.learn(batch for batch in sealing.batches if batch.is_ordered)
        return sealing.batches, len(sealing.taken)

    async def _busy(self, db: Any) -> frozenset[QualifiedName]:  # noqa: ANN401 - asyncpg has no types
        """The keys of all batches that are left, as nobody else seals or halves meanwhile."""
        if unknown := self._keys.unknown([no for (no,) in await db.fetch(_ORDERED)]):
            self._keys.learn(SealedBatch(*record) for record in await db.fetch(_READ, unknown))
        return self._keys.busy()

    async def _rows(self, db: Any, left_out: LeftOut, busy: frozenset[QualifiedName]) -> list[OutboxRow]:  # noqa: ANN401 - as above
        if not left_out.queues:
            above = self._mark.above(time.monotonic(), left_out)
            rows = await _looked(db, above, left_out)
            if not self._mark.is_enough(above, rows):
                rows = await _looked(db, 0, left_out)
            if not is_clogged(rows, busy):
                return rows
        self._mark.look_again()
        return await _looked_beside(db, left_out, busy)

    async def take_over(self, owner: str, lease_s: float, in_hand: Collection[int]) -> list[SealedBatch]:
        async with self._transaction() as db:
            records = await db.fetch(_TAKE_OVER, owner, lease_s, [*in_hand])
        return [SealedBatch(*record) for record in records]

    async def keep(self, owner: str, lease_s: float) -> None:
        async with self._transaction() as db:
            await db.execute(_KEEP, owner, lease_s)

    async def note(self, batch: SealedBatch, why: str) -> None:
        async with self._transaction() as db:
            await db.execute("UPDATE timerd.sealed SET why = $1 WHERE no = $2", why, batch.no)

    async def done(self, batch: SealedBatch, refused: Sequence[RefusedRow]) -> None:
        async with self._transaction() as db:
            if await _gone(db, batch):
                await _write_refused(db, refused)

    async def anew(self, batch: SealedBatch) -> SealedBatch | None:
        async with self._transaction() as db:
            outbox, made_ms = await _moment(db)
            again = anew(outbox, batch, made_ms)
            changed = await db.fetchval(
                "UPDATE timerd.sealed SET made_ms = $3, request = $4 WHERE no = $1 AND made_ms = $2 RETURNING no",
                *(batch.no, batch.made_ms, made_ms, again.request),
            )
        return again if changed is not None else None

    async def halve(self, batch: SealedBatch, owner: str, lease_s: float) -> list[SealedBatch]:
        async with self._transaction() as db:
            outbox, made_ms = await _moment(db)
            if not await _gone(db, batch):
                return []
            both = halves(outbox, batch.no, made_ms, rows_in(batch))
            await _write_sealed(db, both, owner, lease_s)
        return both

    async def rest(self, batch: SealedBatch, outcome: SendOutcome, owner: str, lease_s: float) -> list[SealedBatch]:
        async with self._transaction() as db:
            outbox, made_ms = await _moment(db)
            if not await _gone(db, batch):
                return []
            await _write_refused(db, outcome.refused)
            batches = [rest(outbox, batch, made_ms, outcome)]
            await _write_sealed(db, batches, owner, lease_s)
        return batches

    async def make(self) -> None:
        async with self._transaction() as db:
            await db.execute(DDL)

    async def facts(self) -> OutboxFacts:
        async with self._transaction() as db:
            outbox, now_ms = await db.fetchrow(_FACTS)
            waiting = await db.fetch(_WAITING_FACTS)
            sealed_now = [SealedFact(*each) for each in await db.fetch(_SEALED_FACTS)]
            refused = await db.fetch(_REFUSED_COUNTS)
        return facts_of(outbox, now_ms, waiting, sealed_now, refused)

    async def refused(self, limit: int) -> list[RefusedFact]:
        async with self._transaction() as db:
            records = await db.fetch(_REFUSED_FACTS, limit)
        return [RefusedFact(each[0], each[1], RefusedRow(OutboxRow(*each[2:10]), *each[10:])) for each in records]

    async def settle_refused(self, numbers: Sequence[int], *, again: bool) -> int:
        async with self._transaction() as db:
            if again:
                await db.execute(_AGAIN, [*numbers])
            gone = await db.fetch(
                "DELETE FROM timerd.refused WHERE number = ANY ($1::bigint[]) RETURNING 1", [*numbers]
            )
        return len(gone)

    async def reset(self, *, discard: bool) -> int:
        async with self._transaction() as db:
            await db.execute("UPDATE timerd.relay SET outbox = gen_random_uuid()")
            if not discard:
                return 0
            rows = await db.fetchval("WITH gone AS (DELETE FROM timerd.outbox RETURNING 1) SELECT count(*) FROM gone")
            sent = await db.fetchval(
                "WITH gone AS (DELETE FROM timerd.sealed RETURNING tasks) SELECT coalesce(sum(tasks), 0) FROM gone"
            )
        return int(rows + sent)

    async def put(self, rows: Sequence[OutboxRow]) -> None:
        async with self._transaction() as db:
            await db.executemany(_PUT, [_values(row) for row in rows])

    async def close(self) -> None:
        if self._connection is not None:
            with suppress(*_AWAY):
                await self._connection.close(timeout=2)
            self._connection = None

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        """Committed where nothing is raised. A connection that failed in any way is given up."""
        async with self._turn:
            try:
                db = self._connection = self._connection or await self._connected()
                await db.execute(_BEGIN)
                yield db
                await db.execute("COMMIT")
            except BaseException as error:
                self._give_up()
                if (told := self._told(error)) is not None:
                    raise told from error
                raise

    async def _connected(self) -> Any:  # noqa: ANN401 - asyncpg has no types
        return await asyncpg.connect(self._url, timeout=_CONNECT_S, command_timeout=_COMMAND_S, statement_cache_size=0)

    def _give_up(self) -> None:
        self._keys.forget()
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _told(self, error: BaseException) -> DatabaseAway | DatabaseWrong | None:
        """None: it is not the database's."""
        said = str(error).strip() or type(error).__name__
        if isinstance(error, _MISSING):
            return DatabaseWrong(
                f"There is no outbox in {self.name} ({said}): make it by `timerd outbox init --database ...`."
            )
        if isinstance(error, _WRONG):
            return DatabaseWrong(f"{self.name} refuses: {said}.")
        if isinstance(error, _AWAY):
            return DatabaseAway(
                f"{self.name} does not answer as it should: {said}. Look whether it runs, and whether the address is "
                "right."
            )
        return None


async def _looked(db: Any, above: int, left_out: LeftOut) -> list[OutboxRow]:  # noqa: ANN401 - asyncpg has no types
    return [OutboxRow(*record) for record in await db.fetch(_LOWEST, above, [*left_out.namespaces])]


async def _looked_beside(db: Any, left_out: LeftOut, busy: frozenset[QualifiedName]) -> list[OutboxRow]:  # noqa: ANN401 - as above
    queues, keys = (list(map(" ".join, each)) for each in (left_out.queues, busy))
    asked = ([*left_out.namespaces], queues, keys)
    return [OutboxRow(*record) for record in await db.fetch(_LOWEST_BESIDE, *asked)]


async def _write_sealed(db: Any, batches: Sequence[SealedBatch], owner: str, lease_s: float) -> None:  # noqa: ANN401 - as above
    for batch in batches:
        await db.execute(_SEALED, *batch, owner, lease_s)


async def _moment(db: Any) -> tuple[str, int]:  # noqa: ANN401 - asyncpg has no types
    """The outbox's id, and a time that is later than that of each request before."""
    outbox, made_ms = await db.fetchrow(
        f"UPDATE timerd.relay SET made_ms = greatest(made_ms + 1, {_NOW_MS}) RETURNING outbox::text, made_ms"
    )
    return outbox, made_ms


async def _gone(db: Any, batch: SealedBatch) -> bool:  # noqa: ANN401 - asyncpg has no types
    """Whether it was there and the same one."""
    found = await db.fetchval(
        "DELETE FROM timerd.sealed WHERE no = $1 AND made_ms = $2 RETURNING no", batch.no, batch.made_ms
    )
    return found is not None


async def _write_refused(db: Any, refused: Sequence[RefusedRow]) -> None:  # noqa: ANN401 - asyncpg has no types
    if refused:
        await db.executemany(_REFUSED, [(*_values(each.row), each.problem, each.reason) for each in refused])


def _values(row: OutboxRow) -> tuple[Any, ...]:
    payload = row.payload if row.queue else None
    return int(row.verb), row.namespace, row.queue, row.fire_at_ms, row.key, payload, _json(row.options)


def _json(options: str) -> str | None:
    """What is no JSON is kept as a text of JSON."""
    if not options:
        return None
    try:
        json.loads(options)
    except ValueError:
        return json.dumps(options)
    return options
