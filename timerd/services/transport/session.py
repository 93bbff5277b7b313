"""One bidi Session: many messages in hand at once, answered in any order, each with its own error.

The window bounds what a client may have unanswered; beyond it the server stops reading, and gRPC's flow control holds
the client back. One coroutine writes at a time, because a stream takes one write at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from timerd.config import MIB
from timerd.services.transport.decoding import Received
from timerd.v1 import timer_service_pb2 as wire

# Enough singles to fill the group commits of a slow disk, enough bytes for some of the largest messages.
MAX_UNANSWERED_REQUESTS = 1_024
MAX_UNANSWERED_BYTES = 8 * MIB
SessionMessage = Received[wire.SessionRequest]
AnswerCall = Callable[[SessionMessage], Awaitable[wire.SessionResponse]]
# Starts a coroutine that outlives the stream: what has begun is not stopped half-way when a client hangs up.
StartTask = Callable[[Any], "asyncio.Task[Any]"]


class Session:
    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], answer: AnswerCall, start: StartTask) -> None:
        self._context = context
        self._answer = answer
        self._start = start
        self._replies: deque[tuple[wire.SessionResponse, int]] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._unanswered_requests = 0
        self._unanswered_bytes = 0
        self._reader: asyncio.Task[None] | None = None
        # Until the window is written, and whenever somebody writes.
        self._is_writing = True
        self._is_over = False
        self._broken: Exception | None = None

    def stop(self) -> None:
        """Reads no further; what was read is answered, then the stream ends well."""
        if self._reader:
            self._reader.cancel()

    async def run(self) -> None:
        self._reader = reader = asyncio.create_task(self._read())
        reader.add_done_callback(lambda _: self._changed.set())
        try:
            await self._context.write(wire.SessionResponse(window=_window()))
            self._is_writing = False
            await self._write()
            while self._broken is None and (self._unanswered_requests or not reader.done()):
                await self._changed.wait()
                self._changed.clear()
        finally:
            # Who has an answer now keeps it.
            self._is_over = True
            reader.cancel()
        if self._broken is not None:
            raise self._broken
        if not reader.cancelled():
            reader.result()

    async def _read(self) -> None:
        while True:
            received = await self._context.read()
            if received is grpc.aio.EOF:
                return
            while not self._has_room(received.size_bytes):
                self._room.clear()
                await self._room.wait()
            self._unanswered_requests += 1
            self._unanswered_bytes += received.size_bytes
            self._start(self._handle(received))

    def _has_room(self, size_bytes: int) -> bool:
        """A message larger than the window goes alone."""
        if not self._unanswered_requests:
            return True
        fits = self._unanswered_bytes + size_bytes <= MAX_UNANSWERED_BYTES
        return fits and self._unanswered_requests < MAX_UNANSWERED_REQUESTS

    async def _handle(self, received: SessionMessage) -> None:
        """A call that has an answer writes it, and those of other calls that are ready by then: nobody has to be woken
        for it."""
        self._replies.append((await self._answer(received), received.size_bytes))
        try:
            await self._write()
        except Exception as broken:  # noqa: BLE001 - it is the stream's, and raised there
            self._broken = broken
            self._changed.set()

    async def _write(self) -> None:
        if self._is_writing or self._is_over:
            return
        self._is_writing = True
        try:
            while self._replies:
                reply, request_bytes = self._replies.popleft()
                await self._context.write(reply)
                self._unanswered_requests -= 1
                self._unanswered_bytes -= request_bytes
                self._room.set()
        finally:
            self._is_writing = False
        if not self._unanswered_requests:
            self._changed.set()


def _window() -> wire.SessionWindow:
    return wire.SessionWindow(
        max_unanswered_bytes=MAX_UNANSWERED_BYTES, max_unanswered_requests=MAX_UNANSWERED_REQUESTS
    )
