"""Receiving due tasks: handlers per queue, run by `Worker`.

A handler that returns acknowledges its delivery; one that raises fails the attempt. Deliveries come at least once:
`delivery_id` is the same over all repeats.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from timerd.sdk.checks import text, whole_number
from timerd.sdk.connection import DEFAULT_TARGET, Connection
from timerd.sdk.deliveries import Delivery
from timerd.sdk.direct_stream import Opener
from timerd.sdk.errors import InvalidTask, TimerdError
from timerd.sdk.lanes import BatchHandler, BatchLane, Handler, Lane, SingleLane
from timerd.sdk.times import Clock, Span, ms_clock, span_ms
from timerd.sdk.traces import Traces
from timerd.sdk.verdicts import Reject, Retry
from timerd.sdk.work_stream import WorkStream
from timerd.v1 import work_service_pb2 as pb

_WORK = "/timerd.v1.WorkService/Work"
AnyHandler = TypeVar("AnyHandler", bound=Handler)
AnyBatchHandler = TypeVar("AnyBatchHandler", bound=BatchHandler)


class Worker:
    """One stream to the server for all queues that it has handlers for."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        namespace: str = "default",
        name: str | None = None,
        lease: Span = 30.0,
        tls: bool = False,
        ca_file: str | Path | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
        tls_server_name: str = "",
        token: str = "",
        token_file: str | Path | None = None,
        channel_options: Sequence[tuple[str, str | int]] = (),
        clock: Clock | None = None,
        tracing: Traces | None = None,
    ) -> None:
        """`clock`: what the lateness of deliveries is seen by, where it is not the machine's own; `tracing`:
        `timerd.tracing.Tracing()`."""
        target = text(target, "target")
        self._connection = Connection(
            target, tls, ca_file, cert_file, key_file, tls_server_name, channel_options, token, token_file
        )
        self._namespace = text(namespace, "namespace")
        self._name = text(name or "", "name") or f"{socket.gethostname()}-{os.getpid()}"
        self._lease_ms = span_ms(lease, "lease")
        self._clock = ms_clock(clock)
        self._tracing = tracing
        self._lanes: dict[str, Lane] = {}
        self._stream: WorkStream | None = None
        self._ended: asyncio.Event | None = None

    def on(self, queue: str, *, concurrency: int = 16) -> Callable[[AnyHandler], AnyHandler]:
        """`@worker.on("mails")` before a coroutine, or a plain function, which then runs in threads."""

        def register(handler: AnyHandler) -> AnyHandler:
            at_once = _at_least_one(concurrency, "concurrency")
            self._add(SingleLane(text(queue, "queue"), handler, at_once, self._tracing))
            return handler

        return register

    def on_batch(
        self, queue: str, *, max_size: int = 1000, concurrency: int = 1
    ) -> Callable[[AnyBatchHandler], AnyBatchHandler]:
        """The handler takes a list of deliveries. It returns None (all done) or one entry for each: an exception
        (also Reject or Retry) where it failed, anything else where it is done. Beside what the handlers have, one batch
        waits here; where they are done within a few milliseconds, so many that all are 4 * max_size * (concurrency + 1)
        tasks at most."""

        def register(handler: AnyBatchHandler) -> AnyBatchHandler:
            size, at_once = _at_least_one(max_size, "max_size"), _at_least_one(concurrency, "concurrency")
            self._add(BatchLane(text(queue, "queue"), handler, size, at_once, self._tracing))
            return handler

        return register

    def _add(self, lane: Lane) -> None:
        if self._stream is not None:
            raise TimerdError("Handlers are registered before the worker runs.", code="FAILED_PRECONDITION")
        if lane.queue in self._lanes:
            raise InvalidTask(f"The queue {lane.queue!r} has a handler already; a worker takes one per queue.")
        self._lanes[lane.queue] = lane

    async def run(self) -> None:
        """Until `stop`. Cancelling it ends at once: what is in hand is delivered again, and perhaps what ended in
        the last 20 ms."""
        if not self._lanes:
            raise InvalidTask('This worker has no handlers. Register one with `@worker.on("queue")`.')
        if self._stream is not None:
            raise TimerdError("This worker runs already.", code="FAILED_PRECONDITION")
        channel = self._connection.open_channel()
        opener = Opener(self._connection, channel, _WORK, pb.WorkResponse.FromString)
        self._ended = asyncio.Event()
        self._stream = WorkStream(opener.open, self._lanes, self._namespace, self._name, self._lease_ms, self._clock)
        try:
            await self._stream.run()
        finally:
            await self._stream.abort()
            self._stream = None
            self._ended.set()
            await channel.close()

    async def stop(self) -> None:
        """Takes nothing new, finishes what has begun, hands back what has not (such an attempt does not count), and
        returns when all of it is confirmed."""
        if self._stream is not None and self._ended is not None:
            self._stream.stop()
            await self._ended.wait()

    def run_forever(self) -> None:
        """For programs without a loop: SIGTERM or SIGINT stops gracefully, a second one at once."""
        asyncio.run(self._run_until_signalled())

    async def _run_until_signalled(self) -> None:
        loop, running = asyncio.get_running_loop(), asyncio.create_task(self.run())
        stopping: list[asyncio.Task[None]] = []

        def on_signal() -> None:
            if stopping:
                running.cancel()
            else:
                stopping.append(asyncio.create_task(self.stop()))

        # Only the main thread may listen to signals; elsewhere the program stops the worker by `stop`.
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGTERM, signal.SIGINT) if is_main else ()
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            await running
        except asyncio.CancelledError:
            if not stopping:
                raise
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def _at_least_one(value: int, field: str) -> int:
    return whole_number(value, field, 1)


__all__ = ["Delivery", "Reject", "Retry", "TimerdError", "Worker"]
