"""The one place that touches the driver, which has no types: everything behind it is annotated.

Its answers come on a thread of its own. They are gathered and handed to the event loop by one wake-up for all that came
meanwhile, so no request costs a thread or a wake-up of its own. cassandra-driver and scylla-driver both fit.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cassandra import DriverException, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import DCAwareRoundRobinPolicy, ExponentialReconnectionPolicy, TokenAwarePolicy
from cassandra.protocol import ErrorMessage
from cassandra.query import BatchStatement, BatchType, BoundStatement, ConsistencyLevel, tuple_factory

from timerd.adapters.cassandra.failures import (
    NoRetry,
    RetryOnce,
    is_crowded,
    is_undecided,
    read_failure,
    write_failure,
)
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.write_times import WriteTimes, wall_ms
from timerd.model.errors import StartupError, StoreUnavailable

ResultRow = tuple[Any, ...]
# What the driver calls Cluster, Session, ResponseFuture, statement: without types.
Untyped: TypeAlias = Any
Values = Sequence[object]
Wire = list[bytes]
PAGE_ROWS = 1_000
_TABLE = re.compile(r'\b(FROM|INTO|UPDATE|ALTER TABLE|TABLE IF NOT EXISTS) ("\w+"|\w+\b)(?!\.)')
# A batch of one partition is one mutation: nodes take half a commit log segment, 16 MiB by default.
BATCH_BYTES = 256 << 10
BATCH_ROWS = 100
# A socket that is full empties in a moment, and the driver says so at once instead of waiting.
CROWDED_S = 0.01
ROWS, READS, REGISTERS, SERIAL = "rows", "reads", "registers", "serial"


class Statement(NamedTuple):
    """A prepared statement with the execution profile it is meant for."""

    prepared: Untyped
    profile: str


class ResultPart(NamedTuple):
    """Of a result: `state` leads to the next part, None where there is none."""

    rows: Sequence[ResultRow]
    state: bytes | None


class _Answer(NamedTuple):
    sent: Untyped
    future: asyncio.Future[ResultPart]
    part: ResultPart | None
    error: BaseException | None


def _profiles(settings: CassandraSettings) -> dict[object, Untyped]:
    """Consistency is said here and nowhere else."""
    balancing = TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=settings.datacenter))

    def profile(consistency: int, retry: object) -> Untyped:
        return ExecutionProfile(
            load_balancing_policy=balancing,
            retry_policy=retry,
            consistency_level=consistency,
            serial_consistency_level=ConsistencyLevel.SERIAL,
            request_timeout=settings.request_timeout_s,
            row_factory=tuple_factory,
        )

    return {
        # Of what names no profile, so that no node of another data centre is spoken to.
        EXEC_PROFILE_DEFAULT: profile(ConsistencyLevel.QUORUM, RetryOnce()),
        ROWS: profile(ConsistencyLevel.QUORUM, NoRetry()),
        READS: profile(ConsistencyLevel.QUORUM, RetryOnce()),
        REGISTERS: profile(ConsistencyLevel.QUORUM, NoRetry()),
        SERIAL: profile(ConsistencyLevel.SERIAL, RetryOnce()),
    }


class Driver:
    """One session. `connect` and `prepare` block; the others belong to the event loop given to `attach`."""

    def __init__(self, cluster: Untyped, session: Untyped, settings: CassandraSettings, now_us: WriteTimes) -> None:
        """`now_us` dates what is written."""
        self.settings = settings
        self.now_us = now_us
        self._cluster = cluster
        self._session = session
        self._slots = asyncio.Semaphore(settings.most_in_flight)
        self._answers: deque[_Answer] = deque()
        self._is_woken = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def connect(cls, settings: CassandraSettings, now_ms: Callable[[], int] = wall_ms) -> Driver:
        """`now_ms` dates what is written; the wall clock where only tables are changed."""
        now_us = WriteTimes(now_ms)
        # A traceback for each node that does not answer, again and again; what follows from it is told by our errors.
        logging.getLogger("cassandra").setLevel(logging.CRITICAL)
        cluster = Cluster(
            list(settings.contact_points),
            port=settings.port,
            execution_profiles=_profiles(settings),
            auth_provider=_auth(settings),
            # Also after an outage of hours a node that is back is found within seconds.
            reconnection_policy=ExponentialReconnectionPolicy(0.5, 5.0, max_attempts=None),
            connect_timeout=5,
            idle_heartbeat_interval=5,
            idle_heartbeat_timeout=5,
            timestamp_generator=now_us,
        )
        # Where to begin, not what is required: ScyllaDB speaks version 4, and is asked for it next.
        cluster.protocol_version = ProtocolVersion.V5
        try:
            session = cluster.connect()
            # A session without a node in the data centre comes up, and can do nothing.
            session.execute("SELECT release_version FROM system.local", execution_profile=READS)
        except (NoHostAvailable, DriverException, OSError) as error:
            known = sorted({host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter})
            cluster.shutdown()
            raise StartupError(_unreachable(settings, known, error)) from error
        session.default_fetch_size = PAGE_ROWS
        return cls(cluster, session, settings, now_us)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, cql: str, values: Values | None = None) -> list[ResultRow]:
        """Blocks; for the schema."""
        return list(self._session.execute(self._named(cql), values, execution_profile=READS, timeout=60))

    def prepare(self, cql: str, profile: str, fetch_rows: int = PAGE_ROWS) -> Statement:
        prepared = self._session.prepare(self._named(cql))
        prepared.fetch_size = fetch_rows
        return Statement(prepared, profile)

    def _named(self, cql: str) -> str:
        """With the keyspace before each table that has none: a session that uses one makes prepared statements that
        mean another table elsewhere."""
        return _TABLE.sub(rf"\1 {self.settings.keyspace}.\2", cql)

    async def part(self, statement: Statement, values: Values, state: bytes | None = None) -> ResultPart:
        """The rows up to the fetch size, and where to go on. Raises StoreUnavailable."""
        bound = statement.prepared.bind(values)
        try:
            try:
                return await self._send(bound, statement.profile, state)
            except ErrorMessage as error:
                if not is_undecided(error):
                    raise
                return await self._send(bound, statement.profile, state)
        except Exception as error:
            raise read_failure(error) from error

    async def rows(self, statement: Statement, values: Values) -> list[ResultRow]:
        """All of them."""
        found, state = await self.part(statement, values)
        rows = list(found)
        while state is not None:
            found, state = await self.part(statement, values, state)
            rows += found
        return rows

    async def write(self, statement: Statement, values: Values) -> Sequence[ResultRow]:
        """Raises StoreUnavailable where nothing was sent, else StoreUnknown."""
        try:
            return (await self._send(statement.prepared.bind(values), statement.profile, None)).rows
        except Exception as error:
            raise write_failure(error) from error

    async def write_all(self, statements: Sequence[tuple[Statement, Values]]) -> None:
        """One unlogged batch, of one partition: atomic, and a single mutation."""
        batch = _batch([statement.prepared.bind(values) for statement, values in statements])
        try:
            await self._send(batch, ROWS, None)
        except Exception as error:
            raise write_failure(error) from error

    async def write_wire(self, rows: Sequence[tuple[Statement, Wire]]) -> None:
        """As `write_all`, of values that are bytes of the protocol already."""
        bound = [_filled(statement, values) for statement, values in rows]
        try:
            await self._send(bound[0] if len(bound) == 1 else _batch(bound), ROWS, None)
        except Exception as error:
            raise write_failure(error) from error

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.shutdown)

    def shutdown(self) -> None:
        self._cluster.shutdown()

    async def _send(self, bound: Untyped, profile: str, state: bytes | None) -> ResultPart:
        if self._loop is None or self._cluster.is_shutdown:
            raise StoreUnavailable("The store is closed.", "STORE_CLOSED")
        async with self._slots:
            until_s = self._loop.time() + self.settings.request_timeout_s
            while True:
                try:
                    return await self._sent(self._loop, bound, profile, state)
                except NoHostAvailable as error:
                    if not is_crowded(error) or self._loop.time() >= until_s:
                        raise
                await asyncio.sleep(CROWDED_S)

    async def _sent(
        self, loop: asyncio.AbstractEventLoop, bound: Untyped, profile: str, state: bytes | None
    ) -> ResultPart:
        future: asyncio.Future[ResultPart] = loop.create_future()
        sent = self._session.execute_async(bound, execution_profile=profile, paging_state=state)
        sent.add_callbacks(self._answered, self._failed, (future, sent), None, (future, sent))
        return await future

    # -- on the driver's thread -----------------------------------------------------------------------------------

    def _answered(self, rows: Sequence[ResultRow] | None, future: asyncio.Future[ResultPart], sent: Untyped) -> None:
        self._post(_Answer(sent, future, ResultPart(rows or (), sent._paging_state), None))

    def _failed(self, error: BaseException, future: asyncio.Future[ResultPart], sent: Untyped) -> None:
        self._post(_Answer(sent, future, None, error))

    def _post(self, answer: _Answer) -> None:
        self._answers.append(answer)
        if not self._is_woken and self._loop is not None:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                # The event loop has ended: nobody waits any more.
                self._answers.clear()

    # -- on the event loop ----------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        # First: what comes from here on asks for another wake-up, or is met below.
        self._is_woken = False
        while self._answers:
            sent, future, part, error = self._answers.popleft()
            _untie(sent)
            if future.done():
                continue
            if part is not None:
                future.set_result(part)
            elif error is not None:
                future.set_exception(error)


def _untie(sent: Untyped) -> None:
    """It leads to itself by its callbacks and its timer. Thousands of such circles, left to the collector, hold up
    firing for 25 to 40 ms every two seconds."""
    sent.clear_callbacks()
    sent._timer = None


def _filled(statement: Statement, values: Wire) -> Untyped:
    """`bind` would make these values one by one, at ten times the cost of all the rest of a row."""
    bound = BoundStatement(statement.prepared)
    bound.values = values
    return bound


def _batch(bound: Sequence[Untyped]) -> Untyped:
    batch = BatchStatement(BatchType.UNLOGGED)
    for each in bound:
        batch.add(each)
    return batch


def _auth(settings: CassandraSettings) -> Untyped:
    return PlainTextAuthProvider(settings.username, settings.password) if settings.username else None


def _unreachable(settings: CassandraSettings, known: Sequence[str], error: Exception) -> str:
    nodes = ", ".join(f"{point}:{settings.port}" for point in settings.contact_points)
    if known and settings.datacenter not in known:
        return (
            f"The cluster at {nodes} has no data centre {settings.datacenter!r}; it has {', '.join(known)}. "
            "Name the one that this instance is to use."
        )
    return (
        f"No Cassandra node of data centre {settings.datacenter!r} answers at {nodes} ({error}). "
        "Check that a node runs there, and user name and password."
    )
