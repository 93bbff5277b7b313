"""One live bidirectional stream: bytes in a queue go out in order, each message that comes in is handed on.

Session and worker differ in what they say, not in how a stream lives and ends, so that part stands here once. Requests
are sent as ready-made bytes, because a repeat must be the very same bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

import grpc
import grpc.aio

from timerd.sdk.values import TimerdError, Unavailable, error_of_rpc

Response = TypeVar("Response")
_CLOSE_S = 1.0
log = logging.getLogger("timerd.client")


class StreamCall(Protocol):
    """The part of a gRPC stream call that is used here; what comes in has its type from the deserializer."""

    async def read(self) -> object: ...
    async def write(self, request: bytes, /) -> None: ...
    async def done_writing(self) -> None: ...
    def cancel(self) -> bool: ...


class Duplex(Generic[Response]):
    """Ends once, with `run`; never comes back."""

    def __init__(self, call: StreamCall, on_response: Callable[[Response], None]) -> None:
        self._call = call
        self._on_response = on_response
        self._outbox: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._closing = asyncio.Event()

    def send(self, request: bytes) -> None:
        self._outbox.append(request)
        self._wake.set()

    def close(self) -> None:
        """Sends what is queued, says goodbye and lets `run` end."""
        self._closing.set()
        self._wake.set()

    async def run(self) -> TimerdError | None:
        """Until the stream ends; the error says how, None = it was closed from here."""
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        closing = asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait({reader, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not reader.done():
                await asyncio.wait({reader}, timeout=_CLOSE_S)
            return None if self._closing.is_set() else reader.result()
        finally:
            for part in (reader, writer, closing):
                part.cancel()
            self._call.cancel()
            await asyncio.gather(reader, writer, closing, return_exceptions=True)

    async def _read(self) -> TimerdError:
        try:
            while (response := await self._call.read()) is not grpc.aio.EOF:
                self._handle(cast(Response, response))
        except grpc.aio.AioRpcError as ended:
            return error_of_rpc(ended)
        return Unavailable("The server ended the stream.")

    def _handle(self, response: Response) -> None:
        try:
            self._on_response(response)
        except Exception:
            # One message that cannot be understood does not end the stream for all others.
            log.exception("A message of the server could not be handled.")

    async def _write(self) -> None:
        try:
            while True:
                while self._outbox:
                    await self._call.write(self._outbox.popleft())
                if self._closing.is_set():
                    await self._call.done_writing()
                    return
                self._wake.clear()
                await self._wake.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The stream is over: the reader learns why.
            return


def opener(
    channel: grpc.aio.Channel, path: str, read: Callable[[bytes], Response]
) -> Callable[[Callable[[Response], None]], Duplex[Response]]:
    """Opens the streams of one method; `read` makes a message of its bytes."""
    call: Any = channel.stream_stream(path, request_serializer=None, response_deserializer=read)
    return lambda on_response: Duplex(call(), on_response)
