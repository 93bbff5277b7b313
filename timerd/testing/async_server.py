"""A whole timerd inside a test, with a clock that the test turns: three hours pass in milliseconds.

    async with timerd.testing.Server() as server:
        worker, client = server.worker(), server.client()

        @worker.on("mails")
        async def send(delivery): ...

        await worker.start()
        await client.schedule("mails", b"hello", delay=3600)
        await server.advance(hours=3)

The same parts as in production run on a real port of loopback; only the clock, the alarm and the loops are driven from
here. Everything due on the way fires at its own instant and is settled before `advance` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self, TypedDict

from timerd.adapters.memory import MemoryStore
from timerd.adapters.sqlite.store import SqliteStore
from timerd.bootstrap import assemble
from timerd.client import Client, ConnectOptions, TaskInfo
from timerd.config import ServerConfig
from timerd.ports import Store, ZoneData
from timerd.sdk.values import Span, Traces, datetime_of_ms, instant_ms, name
from timerd.services.node import Node
from timerd.testing.clients import HomeClient
from timerd.testing.clock import SimAlarm, SimClock, Sleepers
from timerd.testing.spans import turn_ms
from timerd.testing.turning import Instance, Turning
from timerd.testing.workers import Worker
from timerd.worker import TypedHandlers
from timerd.worker import Worker as RealWorker

START = datetime(2030, 1, 1, tzinfo=UTC)
# Nobody needs the fsync of a test.
CONFIG = ServerConfig(listen="127.0.0.1:0", synchronous="normal")
# For handlers that sleep by the virtual clock, a stop need not wait.
ASLEEP_MS = 10


TaskInfos = list[TaskInfo]
Program = RealWorker | TypedHandlers


class ServerKeywords(TypedDict, total=False):
    """These are the keywords of `Server`, which says what each of them means.

    Args:
        data: the directory of its data.
        start: the instant that its clock shows at first.
        config: its configuration.
        patience_s: how long handlers may take in real time, in seconds.
        zones: the data of time zones.
    """

    data: str | Path | None
    start: datetime
    config: ServerConfig
    patience_s: float
    zones: ZoneData | None


class Server:
    """A test server is a whole timerd on a port of loopback, whose clock the test turns.

    Use it as `async with timerd.testing.Server() as server:`.

    Args:
        data: the directory of its data. Default none: it keeps them in memory, also over `restart`.
        start: the instant that its clock shows at first, a datetime with a zone. Default 2030-01-01 UTC.
        config: its configuration. Default that of `timerd serve`, on a free port, without fsync.
        patience_s: how long handlers may take in real time, in seconds; then `advance` raises TimeoutError. Default 10.
        zones: the data of time zones, as `timerd.ports.ZoneData` says. Default those of the package tzdata.
    """

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        start: datetime = START,
        config: ServerConfig = CONFIG,
        patience_s: float = 10.0,
        zones: ZoneData | None = None,
    ) -> None:
        self.zones = zones
        self._clock = SimClock(instant_ms(start, "start"))
        self._sleepers = Sleepers()
        self._workers: list[Worker] = []
        self._clients: list[Client] = []
        self._own_clients: dict[str, Client] = {}
        self._config = config if data is None else replace(config, data=Path(data))
        self._memory = MemoryStore() if data is None else None
        self._patience_s = patience_s
        self._node: Node | None = None
        self._turning: Turning | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """The server ends with its workers and clients; the end of `async with` calls this."""
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self.stop)
            for client in self._clients:
                ending.push_async_callback(client.close)
            for worker in self._workers:
                ending.push_async_callback(worker.kill)

    @property
    def address(self) -> str:
        """The address of the server is HOST:PORT, and stays the same over a restart."""
        return self._config.listen

    @property
    def now(self) -> datetime:
        """This is what the clock of the server shows, in UTC."""
        return datetime_of_ms(self._clock.now_ms)

    @property
    def node(self) -> Node:
        """The node is what is inside, for tests of timerd itself.

        Raises:
            RuntimeError: the server is stopped.
        """
        if self._node is None:
            raise _stopped()
        return self._node

    # -- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """The server starts; it serves when the call returns. `async with` calls this."""
        store: Store = self._memory or SqliteStore(
            self._config.data, lambda: self._clock.now_ms, self._config.synchronous
        )
        alarm = SimAlarm(self._clock)
        node = await assemble(self._config, store, self._clock, lambda _: alarm, "timerd-test", zones=self.zones)
        address = await node.listen()
        self._config = replace(self._config, listen=address)
        self._node = node
        instances = [Instance(node, self._clock, alarm)]
        self._turning = Turning(instances, self._clock.now_ms, self._sleepers, self._workers, self._patience_s)
        await self.settle()

    async def stop(self) -> None:
        """The server stops gracefully. Workers stay, and connect again when it is back."""
        if self._node is None or self._turning is None:
            return
        drain_ms = int(self._patience_s * 1000) if self._turning.awake() else ASLEEP_MS
        node, self._node, self._turning = self._node, None, None
        await node.stop(drain_ms)

    async def restart(self) -> None:
        """The server stops gracefully and starts again on the same data; no time passes."""
        await self.stop()
        await self.start()

    # -- time -----------------------------------------------------------------------------------------------------

    async def advance(self, span: timedelta | None = None, **parts: float) -> None:
        """The clock is turned forward, as by `advance(hours=3)` or `advance(timedelta(hours=3))`.

        Everything that is due on the way is delivered at its own instant and settled before the call returns.

        Args:
            span: how much, a timedelta. Default none.
            parts: in its place or beside it the parts of a timedelta, as `minutes=5`.

        Raises:
            ValueError: the span leads back.
            TypeError: it is no span.
            TimeoutError: handlers or deliveries have not ended within `patience_s` of real time.
        """
        await self._advance_to(self._clock.now_ms + turn_ms(span, parts))

    async def advance_to(self, moment: datetime) -> None:
        """The clock is turned forward to `moment`, a datetime with a zone.

        Raises:
            ValueError: the moment has passed.
            TimeoutError: as for `advance`.
        """
        moment_ms = instant_ms(moment, "moment")
        if moment_ms < self._clock.now_ms:
            raise ValueError(f"It is {self.now.isoformat()} already: the clock is only turned forward.")
        await self._advance_to(moment_ms)

    async def settle(self) -> None:
        """The call returns when everything that is due now is delivered and settled; no time passes.

        Raises:
            TimeoutError: as for `advance`.
        """
        if self._turning is not None:
            await self._turning.settle()

    async def sleep(self, span: timedelta | None = None, **parts: float) -> None:
        """A handler waits for virtual time to pass, during which its worker keeps its leases.

        Args:
            span: how much, a timedelta. Default none.
            parts: in its place or beside it the parts of a timedelta, as `minutes=5`.
        """
        await self._sleepers.sleep(self._clock.now_ms + turn_ms(span, parts))

    async def _advance_to(self, target_ms: int) -> None:
        if self._turning is not None:
            await self._turning.turn_to(target_ms)
        else:
            self._clock.now_ms = target_ms
            self._sleepers.wake(target_ms)
            await asyncio.sleep(0)

    # -- what waits -----------------------------------------------------------------------------------------------

    async def scheduled(self, queue: str, *, namespace: str = "default") -> TaskInfos:
        """The call returns the tasks of a queue that have not ended, in the order in which they are due.

        Each has its `payload`, `fire_time`, `key`, `labels` and `state`; one that failed before has its `attempt` and
        `last_error`.

        Args:
            queue: the queue.
            namespace: the namespace of its tasks. Default "default".

        Raises:
            RuntimeError: the server is stopped.
        """
        if self._node is None:
            raise _stopped()
        listed = self._own_client(namespace).list(queue=name(queue, "queue"), include_payload=True)
        return [task async for task in listed]

    def _own_client(self, namespace: str) -> Client:
        """One for each namespace, that the server itself uses."""
        if namespace not in self._own_clients:
            self._own_clients[namespace] = HomeClient(self.connect_options, namespace)
            self._clients.append(self._own_clients[namespace])
        return self._own_clients[namespace]

    # -- who uses it ----------------------------------------------------------------------------------------------

    @property
    def connect_options(self) -> ConnectOptions:
        """These options lead a program's own clients and workers here: `Client(server.connect_options)`.

        Their delays then count from the clock of the server, of which an address alone says nothing.
        """
        return ConnectOptions(self.address, clock=lambda: self.now)

    def client(self, *, namespace: str = "default", tracing: Traces | None = None) -> Client:
        """The server makes a client, whose delays count from the virtual clock. It is closed with the server.

        Args:
            namespace: the namespace of its tasks. Default "default".
            tracing: `timerd.tracing.Tracing()`. Default none.
        """
        client = Client(self.connect_options, namespace=namespace, tracing=tracing)
        self._clients.append(client)
        return client

    def worker(
        self, *, namespace: str = "default", lease: Span = 30.0, silent: bool = False, tracing: Traces | None = None
    ) -> Worker:
        """The server makes a worker: register handlers, then `await worker.start()`. It ends with the server.

        Args:
            namespace: the namespace of its tasks. Default "default".
            lease: how long a delivery stays with it after the server last heard of it, a timedelta or seconds. Default
                30 s.
            silent: whether it never extends its leases, like one that hangs. Default no.
            tracing: `timerd.tracing.Tracing()`. Default none.
        """
        worker = Worker(self.address, lambda: self.now, namespace, lease, silent=silent, tracing=tracing)
        self._workers.append(worker)
        return worker

    @asynccontextmanager
    async def working(self, *programs: Program) -> AsyncIterator[None]:
        """Workers of a program run here as long as the block lasts: `async with server.working(worker):`.

        `advance` and `settle` return when their handlers have ended, and so does the block. The worker itself stays as
        it is, also its address: its handlers, schedules and typed tasks run on this server, by its clock. Typed tasks
        are scheduled here, too, as long as the block lasts.

        Args:
            programs: each a `timerd.Worker` that has not been started, or a `timerd.tasks.Tasks`.

        Raises:
            InvalidTask: a worker has no handlers.
            RuntimeError: a worker runs already.
            TimeoutError: as for `advance`.
        """
        async with AsyncExitStack() as ending:
            for program in programs:
                worker = self._worker_of(program)
                ending.push_async_callback(worker.kill)
                ending.enter_context(worker.binding(self._own_client(worker.namespace)))
                await worker.start()
            yield
            await self.settle()

    def _worker_of(self, program: Program) -> Worker:
        if isinstance(program, Worker) and program in self._workers:
            return program
        if isinstance(program, RealWorker):
            worker = Worker.of(program, self.address, lambda: self.now)
            self._workers.append(worker)
        elif hasattr(program, "handlers"):
            worker = self.worker()
            worker.include(program)
        else:
            raise TypeError(f"Give a `timerd.Worker` or a `timerd.tasks.Tasks`, not {program!r:.200}.")
        return worker


def _stopped() -> RuntimeError:
    return RuntimeError(
        "The server is stopped: `await server.start()` first, or use it as `async with Server() as server:`."
    )
