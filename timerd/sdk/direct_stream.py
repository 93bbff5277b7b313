"""A stream straight on the event loop's own socket: what `Duplex` is over grpcio, without the threads between.

A message that comes is handled in the turn of the loop that read it, one that goes is on its way when `send` returns.
Where no such connection comes about, the other side does not speak HTTP/2, or the target is one that only gRPC can
resolve, a `Duplex` takes over before anything was said; its errors say what is wrong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import grpc.aio

from timerd.sdk.connection import Connection
from timerd.sdk.duplex import Duplex, Stream, StreamCall
from timerd.sdk.errors import TimerdError, Unavailable
from timerd.sdk.one_stream import OneStream
from timerd.sdk.side_door import FOUND_WITHIN_S, find_door, may_have_one
from timerd.sdk.trailers import error_of_end

Response = TypeVar("Response")
CONNECT_S = 5.0
# As grpcio's keepalive is set (connection.py): a peer that vanished without a word is noticed within 30 s.
PING_AFTER_S = 20.0
ANSWER_WITHIN_S = 10.0
LOOK_EVERY_S = 5.0
_CLOSE_S = 1.0
# HTTP/2's word for pings that come too often.
_ENHANCE_YOUR_CALM = 11
log = logging.getLogger("timerd.client")


class Opener(Generic[Response]):
    """Makes the streams of one method; `read` makes a message of its bytes."""

    def __init__(
        self, connection: Connection, channel: grpc.aio.Channel, path: str, read: Callable[[bytes], Response]
    ) -> None:
        self.connection = connection
        self.path = path
        self.read = read
        call: Any = channel.stream_stream(path, request_serializer=None, response_deserializer=read)
        self.call: Callable[[], StreamCall] = call
        # Longer where a server (or a proxy before it) says that it is too often.
        self.pings_after = 1.0

    def open(self, on_response: Callable[[Response], None]) -> Stream:
        return DirectStream(self, on_response)


class DirectStream(Generic[Response]):
    """Ends once, with `run`; never comes back."""

    def __init__(self, opener: Opener[Response], on_response: Callable[[Response], None]) -> None:
        self._opener = opener
        self._on_response = on_response
        self._http = OneStream()
        self._link: _Link | None = None
        self._transport: asyncio.Transport | None = None
        self._through_grpc: Duplex[Response] | None = None
        # Said before it was open.
        self._early: list[bytes] = []
        self._is_open = False
        self._is_closing = False
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[bool] = loop.create_future()
        self._ended: asyncio.Future[TimerdError] = loop.create_future()
        self._heard_s = 0.0
        # When the server was asked whether it lives.
        self._asked_s: float | None = None

    def send(self, request: bytes) -> None:
        if self._through_grpc is not None:
            self._through_grpc.send(request)
        elif self._is_open:
            self._http.send(request)
            self._write()
        else:
            self._early.append(request)

    def close(self) -> None:
        """Sends what is queued, says goodbye and lets `run` end."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._through_grpc is not None:
            self._through_grpc.close()
        elif self._is_open:
            self._say_goodbye()

    async def run(self) -> TimerdError | None:
        """Until the stream ends; the error says how, None = it was closed from here."""
        try:
            transport = await self._connect()
        except (OSError, ValueError, OverflowError):
            return await self._run_through_grpc()
        watching = asyncio.create_task(self._watch())
        try:
            ended = await self._ended
            return None if self._is_closing else ended
        finally:
            watching.cancel()
            self._is_open = False
            transport.abort()

    async def _connect(self) -> asyncio.Transport:
        """Raises OSError or ValueError where there is no way but grpcio's."""
        connection = self._opener.connection
        address = connection.direct_address()
        if address is None:
            raise ValueError("Only gRPC can resolve this target.")
        if may_have_one(connection) and (door := await find_door(connection)) is not None:
            with suppress(OSError):
                return await self._connect_to(door.host, door.port, door.headers)
        return await self._connect_to(*address)

    async def _connect_to(self, host: str, port: int, headers: Sequence[tuple[str, str]] = ()) -> asyncio.Transport:
        """With `headers` there is no answer yet where the other side only speaks HTTP/2: it may refuse them."""
        connection, loop = self._opener.connection, asyncio.get_running_loop()
        link = self.new_link(waits_for_headers=bool(headers))
        context = connection.tls_context() if connection.has_tls else None
        name = (connection.tls_server_name or host) if context is not None else None
        opening = self._http.opening(self._opener.path, connection, headers)
        # Whoever is silent at a door's address may be anybody, and there is another way.
        async with asyncio.timeout(FOUND_WITHIN_S if headers else CONNECT_S):
            self._transport, _ = await loop.create_connection(
                lambda: link, host, port, ssl=context, server_hostname=name
            )
            try:
                await self._open(self._transport, opening)
            except BaseException:
                self._transport.abort()
                raise
        return self._transport

    def new_link(self, *, waits_for_headers: bool = False) -> _Link:
        """What comes on another one is not heard any more."""
        self._http, self._opened = OneStream(), asyncio.get_running_loop().create_future()
        self._link = _Link(self, waits_for_headers=waits_for_headers)
        return self._link

    async def _open(self, transport: asyncio.Transport, opening: bytes) -> None:
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != "h2":
            raise OSError("The other side does not speak HTTP/2.")
        transport.write(opening)
        # Nothing is said to somebody who may be no server of ours.
        if not await self._opened:
            raise OSError("The other side does not speak HTTP/2.")
        self._is_open = True
        for request in self._early:
            self._http.send(request)
        if self._is_closing:
            self._say_goodbye()
        self._write()

    async def _run_through_grpc(self) -> TimerdError | None:
        self._through_grpc = duplex = Duplex(self._opener.call(), self._on_response)
        for request in self._early:
            duplex.send(request)
        if self._is_closing:
            duplex.close()
        return await duplex.run()

    def received(self, link: _Link, data: bytes) -> None:
        if link is not self._link:
            return
        self._heard_s, self._asked_s = asyncio.get_running_loop().time(), None
        messages = self._http.take(data)
        if not self._opened.done() and not self._has_opened(link):
            return
        self._write()
        for message in messages:
            self._handle(message)
        if self._http.ended:
            self._end(error_of_end(self._http.header_blocks, self._http.ended))

    def _has_opened(self, link: _Link) -> bool:
        """Whether there is anything for this stream in what came. Who is refused by a side door has heard nothing."""
        http = self._http
        if link.waits_for_headers:
            if http.ended or http.header_blocks:
                self._opened.set_result(not http.ended)
            else:
                self._write()
            return not http.ended
        if http.has_heard or http.ended:
            self._opened.set_result(http.has_heard)
        return True

    def lost(self, link: _Link, exc: Exception | None) -> None:
        if link is not self._link:
            return
        if not self._opened.done():
            self._opened.set_result(False)
            if link.waits_for_headers:
                return
        if self._http.error_code == _ENHANCE_YOUR_CALM:
            self._opener.pings_after *= 2
        self._end(Unavailable(f"The connection to the server broke{f': {exc}' if exc else ''}."))

    def _write(self) -> None:
        if self._transport is not None and (data := self._http.to_send()):
            self._transport.write(data)

    def _handle(self, message: bytes) -> None:
        try:
            self._on_response(self._opener.read(message))
        except Exception:
            # One message that cannot be understood does not end the stream for all others.
            log.exception("A message of the server could not be handled.")

    def _end(self, error: TimerdError) -> None:
        if not self._ended.done():
            self._ended.set_result(error)

    def _say_goodbye(self) -> None:
        self._http.finish()
        self._write()
        asyncio.get_running_loop().call_later(_CLOSE_S, self._end, Unavailable("The stream was closed."))

    async def _watch(self) -> None:
        """Asks a server that is silent whether it lives: so does a loop that was held up, and could not hear it."""
        loop = asyncio.get_running_loop()
        self._heard_s = loop.time()
        while self._asked_s is None or loop.time() - self._asked_s < ANSWER_WITHIN_S:
            if self._asked_s is None and loop.time() - self._heard_s >= PING_AFTER_S * self._opener.pings_after:
                self._asked_s = loop.time()
                self._http.ping()
                self._write()
            await asyncio.sleep(LOOK_EVERY_S)
        self._end(Unavailable("The server has been silent, and does not answer a ping."))


class _Link(asyncio.Protocol):
    """One attempt to connect. What still comes of an earlier one is not this stream's any more."""

    def __init__(self, stream: DirectStream[Any], *, waits_for_headers: bool) -> None:
        self.waits_for_headers = waits_for_headers
        self.data_received = partial(stream.received, self)  # type: ignore[method-assign]
        self.connection_lost = partial(stream.lost, self)  # type: ignore[method-assign]
