"""The test server for tests without asyncio.

    with timerd.testing.server() as server:
        server.client.schedule("mails", b"hello", delay=3600)
        assert [task.payload for task in server.scheduled("mails")] == [b"hello"]
        server.advance(hours=3)

It lives in the loop of `SyncClient`, in a thread of its own, beside the clients of the test and of the program that is
tested. Any thread may call it. Those that turn the clock do so one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from timerd.client import ConnectOptions, SyncClient, TaskInfo
from timerd.sdk.scheduling import Caller
from timerd.sdk.values import check_keywords
from timerd.testing.async_server import Program, Server, ServerKeywords

Result = TypeVar("Result")
_IN_HANDLER = ContextVar("_IN_HANDLER", default=False)


class _Turns:
    """What threads ask of the clock, one after the other, and nothing after the end."""

    def __init__(self, server: Server) -> None:
        self.is_closed = False
        self._server = server
        self._lock = asyncio.Lock()

    async def take(self, work: Callable[[], Awaitable[Result]]) -> Result:
        async with self._lock:
            if self.is_closed:
                raise _closed()
            return await work()

    async def close(self) -> None:
        async with self._lock:
            self.is_closed = True
            await self._server.close()


class SyncServer:
    """A sync server is a test server for tests without asyncio: the calls of `Server` without await.

    Use it as `with timerd.testing.server() as server:`. Any number of threads may call it, and turn the clock one after
    the other. A call with a delay under which another thread turns the clock by more than a minute is refused, as from
    a machine whose clock is wrong: give it an instant.

    Args:
        options: the keywords of `Server`: `data`, `start`, `config`, `patience_s` and `zones`.
    """

    def __init__(self, **options: Unpack[ServerKeywords]) -> None:
        check_keywords("server", options, ServerKeywords.__optional_keys__)
        self._server = Server(**options)
        self._turns = _Turns(self._server)
        self._caller = Caller(self._turns)
        self._client: SyncClient | None = None

    def __enter__(self) -> Self:
        if self._client is not None:
            raise RuntimeError("This server was started before: make another one by `timerd.testing.server()`.")
        try:
            self._caller.run(self._turns.take(self._server.start))
        except BaseException:
            self._caller.close()
            raise
        self._client = SyncClient(self.connect_options)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The server ends for good, with its workers and its client; the end of `with` calls this."""
        if self._client is not None:
            self._client.close()
        self._caller.close()

    @property
    def client(self) -> SyncClient:
        """This client of the namespace "default" counts delays from the clock of the server. It ends with the server.

        Raises:
            RuntimeError: the server has not started, or is closed.
        """
        self._check()
        assert self._client is not None
        return self._client

    @property
    def connect_options(self) -> ConnectOptions:
        """These options lead a program's own clients and workers here: `SyncClient(server.connect_options)`.

        Their delays then count from the clock of the server, of which an address alone says nothing.
        """
        return self._server.connect_options

    @property
    def address(self) -> str:
        """The address of the server is HOST:PORT, and stays the same over a restart."""
        return self._server.address

    @property
    def now(self) -> datetime:
        """This is what the clock of the server shows, in UTC."""
        return self._server.now

    # -- time -----------------------------------------------------------------------------------------------------

    def advance(self, span: timedelta | None = None, **parts: float) -> None:
        """The clock is turned forward, as by `advance(hours=3)` or `advance(timedelta(hours=3))`.

        Everything that is due on the way is delivered at its own instant, and handled when the call returns.

        Args:
            span: how much, a timedelta. Default none.
            parts: in its place or beside it the parts of a timedelta, as `minutes=5`.

        Raises:
            ValueError: the span leads back.
            TypeError: it is no span.
            TimeoutError: handlers or deliveries have not ended within `patience_s` of real time.
            RuntimeError: the server has not started, or is closed.
        """
        self._turn(partial(self._server.advance, span, **parts))

    def advance_to(self, moment: datetime) -> None:
        """The clock is turned forward to `moment`, a datetime with a zone.

        Raises:
            ValueError: the moment has passed.
            TimeoutError, RuntimeError: as for `advance`.
        """
        self._turn(partial(self._server.advance_to, moment))

    def settle(self) -> None:
        """The call returns when everything that is due now is delivered and handled; no time passes.

        Raises:
            TimeoutError, RuntimeError: as for `advance`.
        """
        self._turn(self._server.settle)

    def restart(self) -> None:
        """The server stops gracefully and starts again on the same data; no time passes.

        Raises:
            RuntimeError: as for `advance`.
        """
        self._turn(self._server.restart)

    # -- what waits, and who works --------------------------------------------------------------------------------

    def scheduled(self, queue: str, *, namespace: str = "default") -> list[TaskInfo]:
        """The call returns the tasks of a queue that have not ended, in the order in which they are due.

        Each has its `payload`, `fire_time`, `key`, `labels` and `state`; one that failed before has its `attempt` and
        `last_error`.

        Args:
            queue: the queue.
            namespace: the namespace of its tasks. Default "default".

        Raises:
            RuntimeError: the server has not started, or is closed.
        """
        return self.run(self._server.scheduled(queue, namespace=namespace))

    @contextmanager
    def working(self, *programs: Program) -> Iterator[None]:
        """Workers of a program run here as long as the block lasts: `with server.working(worker):`.

        `advance` and `settle` return when their handlers have ended, and so does the block. The worker itself stays as
        it is, also its address: its handlers, schedules and typed tasks run on this server, by its clock. Typed tasks
        are scheduled here, too, as long as the block lasts: `server.run(remind.schedule(user=7, delay=60))`.

        Args:
            programs: each a `timerd.Worker` that has not been started, or a `timerd.tasks.Tasks`.

        Raises:
            InvalidTask: a worker has no handlers.
            TimeoutError: as for `advance`.
            RuntimeError: a worker runs already, or as for `advance`.
        """
        block = self._server.working(*programs)
        self.run(_enter(block))
        try:
            yield
        except BaseException as raised:
            self._turn(partial(block.__aexit__, type(raised), raised, raised.__traceback__))
            raise
        self._turn(partial(block.__aexit__, None, None, None))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The call runs a coroutine in the loop of the server, and returns what it gives: `server.run(plan())`.

        Args:
            work: the coroutine.

        Raises:
            RuntimeError: the server has not started, or is closed.
        """
        try:
            self._check()
        except RuntimeError:
            work.close()
            raise
        return self._caller.run(work)

    def _turn(self, work: Callable[[], Awaitable[object]]) -> None:
        self._check()
        if _IN_HANDLER.get():
            raise RuntimeError(
                "A handler cannot turn the clock, which waits for the handler to end: turn it in the test."
            )
        self._caller.run(self._turns.take(work))

    def _check(self) -> None:
        if self._turns.is_closed:
            raise _closed()
        if self._client is None:
            raise RuntimeError("The server has not started: use it as `with timerd.testing.server() as server:`.")


async def _enter(block: AbstractAsyncContextManager[None]) -> None:
    """What begins to run here knows that it runs on the server, and so do its handlers."""
    _IN_HANDLER.set(True)
    await block.__aenter__()


def server(**options: Unpack[ServerKeywords]) -> SyncServer:
    """The function makes a test server for a test without asyncio: `with timerd.testing.server() as server:`.

    Args:
        options: the keywords of `Server`: `data`, `start`, `config`, `patience_s` and `zones`.
    """
    return SyncServer(**options)


def _closed() -> RuntimeError:
    return RuntimeError("This server is closed: the clock is turned, and calls are made, inside of its `with`.")
