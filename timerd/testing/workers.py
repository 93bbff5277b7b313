"""A worker that lives by the clock of its test server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Self

from timerd.client import Client
from timerd.sdk.values import Clock, Span, Traces
from timerd.worker import Worker as RealWorker

# A server that was restarted a moment ago is found in milliseconds.
_QUICK = (("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20))


class Worker(RealWorker):
    """A test worker is a `timerd.Worker` that lives by the clock of its test server; `server.worker()` makes it.

    `async with server.worker() as worker:` runs it, or `await worker.start()`.

    Args:
        target: the address of the server.
        clock: the clock of the test, by which lateness is seen.
        namespace: the namespace of its tasks.
        lease: how long a delivery stays with it after the server last heard of it, a timedelta or seconds.
        silent: whether it never extends its leases, like one that hangs. Default no.
        tracing: `timerd.tracing.Tracing()`. Default none.
    """

    def __init__(
        self,
        target: str,
        clock: Clock,
        namespace: str,
        lease: Span,
        *,
        silent: bool = False,
        tracing: Traces | None = None,
    ) -> None:
        super().__init__(target, namespace=namespace, lease=lease, clock=clock, channel_options=_QUICK, tracing=tracing)
        self.silent = silent
        self._run: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, program: RealWorker, target: str, clock: Clock) -> Self:
        """A test worker that runs the handlers, schedules and typed tasks of a program's own worker, which stays as it
        is.

        Args:
            program: the program's own worker, which has not been started.
            target: the address of the server.
            clock: the clock of the test.

        Raises:
            RuntimeError: the program's own worker runs.
        """
        if program._loop is not None:
            raise RuntimeError("This worker runs already, on a server of its own: give one that has not been started.")
        worker = cls(target, clock, program._namespace, timedelta(milliseconds=program._lease_ms))
        worker._take_over(program)
        return worker

    def _take_over(self, program: RealWorker) -> None:
        self._name = program._name
        self._lanes = {queue: lane.fresh() for queue, lane in program._lanes.items()}
        self._declared = [*program._declared]
        self._included = [*program._included]

    @contextlib.contextmanager
    def binding(self, client: Client) -> Iterator[None]:
        """The typed tasks that this worker includes are scheduled by `client` as long as the block lasts."""
        with contextlib.ExitStack() as bound:
            for tasks in self._included:
                bound.enter_context(tasks.bound(client))
            yield

    @property
    def namespace(self) -> str:
        """The namespace of its tasks."""
        return self._namespace

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """The worker begins to run; the call returns when the server knows it.

        Raises:
            RuntimeError: the worker runs already.
            TimerdError: as for `run`.
        """
        if self.is_running:
            raise RuntimeError("This worker runs already.")
        self._run = asyncio.create_task(self.run())
        await asyncio.sleep(0)
        if self._run.done():
            ended, self._run = self._run, None
            ended.result()
        await self.sync()
        if self._declaring is not None:
            # What is wrong with a schedule ends the worker, which says so.
            await asyncio.wait([self._declaring])

    async def kill(self) -> None:
        """The worker ends like one whose process is killed: what is in hand is delivered again."""
        if self._run is not None:
            self._run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._run

    @property
    def is_running(self) -> bool:
        """This flag says whether the worker has been started and has not ended."""
        return self._run is not None and not self._run.done()

    @property
    def in_hand(self) -> int:
        """This is the number of deliveries whose handlers have not ended."""
        return len(self._stream.in_hand) if self._stream is not None else 0

    @property
    def lease_ms(self) -> int:
        """The lease is how long a delivery stays with the worker, in milliseconds."""
        return self._lease_ms

    def handlers(self) -> set[asyncio.Task[None]]:
        """This returns the asyncio tasks of the handlers that are running."""
        return self._stream.running() if self._stream is not None else set()

    def extend(self) -> None:
        """The worker extends its leases, unless it is silent; the code that turns the clock calls it."""
        if self._stream is not None and not self.silent:
            self._stream.extend()

    async def sync(self) -> None:
        """The call returns when server and worker have heard all that the other one said.

        Raises:
            TimerdError: what ended the worker.
        """
        if self._run is None or self._stream is None:
            return
        heard = asyncio.create_task(self._stream.sync())
        try:
            await asyncio.wait({heard, self._run}, return_when=asyncio.FIRST_COMPLETED)
            if not heard.done() and not self._run.cancelled():
                self._run.result()
        finally:
            heard.cancel()
