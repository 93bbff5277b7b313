"""A worker that lives by the clock of its test server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from timerd.sdk.times import Clock, Span
from timerd.sdk.traces import Traces
from timerd.worker import Worker as RealWorker

# A server that was restarted a moment ago is found in milliseconds.
_QUICK = (("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20))


class Worker(RealWorker):
    """`async with server.worker() as worker:` runs it, or `await worker.start()`. With `silent` it never extends its
    leases, like one that hangs."""

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

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Returns when the server knows it."""
        self._run = asyncio.create_task(self.run())
        await asyncio.sleep(0)
        await self.sync()

    async def kill(self) -> None:
        """Like the end of its process: what is in hand is delivered again."""
        if self._run is not None:
            self._run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._run

    @property
    def is_running(self) -> bool:
        return self._run is not None and not self._run.done()

    @property
    def in_hand(self) -> int:
        """Deliveries whose handlers have not ended."""
        return len(self._stream.in_hand) if self._stream is not None else 0

    @property
    def lease_ms(self) -> int:
        return self._lease_ms

    def handlers(self) -> set[asyncio.Task[None]]:
        return self._stream.running() if self._stream is not None else set()

    def extend(self) -> None:
        if self._stream is not None and not self.silent:
            self._stream.extend()

    async def sync(self) -> None:
        """Until server and worker have heard all that the other one said. Raises what ended the worker."""
        if self._run is None or self._stream is None:
            return
        heard = asyncio.create_task(self._stream.sync())
        try:
            await asyncio.wait({heard, self._run}, return_when=asyncio.FIRST_COMPLETED)
            if not heard.done() and not self._run.cancelled():
                self._run.result()
        finally:
            heard.cancel()
