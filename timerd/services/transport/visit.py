"""One caller who came in by the side door: a connection, the one stream on it, and what its handler needs of gRPC."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias, cast

import grpc
import grpc.aio

from timerd.services.transport.served_stream import Metadata, ServedStream

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
# What the headers of a request lead to, or a sentence that says why nowhere.
Find: TypeAlias = "Callable[[Mapping[str, str]], Handler | str]"
# As grpcio is set up here (server.py): a peer that vanished without a word is noticed within 30 s.
PING_AFTER_S = 20.0
ANSWER_WITHIN_S = 10.0
LOOK_EVERY_S = 5.0
# For the headers of who has connected, and for who has been told the end to hang up.
PATIENCE_S = 5.0
# What the kernel did not take yet and the writer need not wait for.
_WRITE_AHEAD_BYTES = 256 << 10
_OK, _CANCELLED, _UNKNOWN, _UNIMPLEMENTED = 0, 1, 2, 12
_log = logging.getLogger(__name__)


class Visit(asyncio.Protocol):
    """`visits`: where it is listed while it is here. What a handler is given is the visit itself: `read`, `write`,
    `feed` and `abort`."""

    def __init__(self, find: Find, visits: set[Visit]) -> None:
        self.call: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        # Done when the connection is over.
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._find = find
        self._visits = visits
        self._handler: Any = None
        self._http = ServedStream()
        self._transport: asyncio.Transport | None = None
        self._messages: deque[bytes] = deque()
        self._came: asyncio.Future[None] | None = None
        # Of who takes messages in the step in which they come: whether there is room for one, and what takes it.
        self._taker: tuple[Callable[[int], bool], Callable[[Any], None]] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_paused = False
        self._heard_s = self._loop.time()
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_WRITE_AHEAD_BYTES)
        self._visits.add(self)
        self._watch = self._loop.call_later(PATIENCE_S, self._look)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        self._messages += self._http.take(data)
        if self.call is None and self._http.fields:
            self.call = self._loop.create_task(self._serve())
        if self._http.ended:
            self.hang_up()
            return
        if self._taker is not None:
            self._hand_on(*self._taker)
        self._flush()
        if self._came is not None and (self._messages or self._http.is_finished):
            _wake(self._came)
            self._came = None

    def _hand_on(self, has_room: Callable[[int], bool], take: Callable[[Any], None]) -> None:
        messages = self._messages
        while messages and has_room(len(messages[0])):
            message = messages.popleft()
            self._http.was_read(len(message))
            take(self._handler.request_deserializer(message))

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._visits.discard(self)
        self.over.set_result(None)
        if self._watch is not None:
            self._watch.cancel()
        self._look_for_room()
        if self.call is not None:
            self.call.cancel()

    def go_away(self) -> None:
        self._http.go_away()
        self._flush()

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- what a handler needs of grpc.aio.ServicerContext ---------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[object]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    async def read(self) -> object:
        while not self._messages:
            if self._http.is_finished:
                return grpc.aio.EOF
            await self._more()
        message = self._messages.popleft()
        self._http.was_read(len(message))
        self._flush()
        return self._handler.request_deserializer(message)

    async def feed(self, has_room: Callable[[int], bool], take: Callable[[Any], None]) -> int | None:
        """Has each message taken in the step in which it comes. Ends with the size of the one that there is no room
        for, which may be 0; None: no more will come."""
        self._taker = has_room, take
        try:
            self._hand_on(has_room, take)
            self._flush()
            while not (self._messages or self._http.is_finished):
                await self._more()
        finally:
            self._taker = None
        return len(self._messages[0]) if self._messages else None

    async def _more(self) -> None:
        self._came = self._loop.create_future()
        await self._came

    async def write(self, reply: object) -> None:
        """Raises ConnectionError where nobody is there any more."""
        self._http.send(self._handler.response_serializer(reply))
        self._flush()
        while self._transport is not None and (self._is_paused or self._http.is_full):
            if self._room is None:
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)
        if self._transport is None:
            raise ConnectionError("The caller has hung up.")

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        raise _Aborted(code.value[0], details, trailing_metadata)

    # -----------------------------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._handler = found = self._find(self._http.fields)
        if isinstance(found, str):
            self._end(_UNIMPLEMENTED, found)
            return
        self._http.accept()
        # Who waits for that says nothing more until then.
        self._flush()
        self._end(*await self._outcome(self._handler.stream_stream))

    async def _outcome(self, behaviour: Any) -> tuple[int, str, Metadata]:  # noqa: ANN401 - as gRPC has it
        try:
            await behaviour(self, self)
        except _Aborted as aborted:
            return aborted.said
        except asyncio.CancelledError:
            # The caller is gone, or the server is: nobody waits for more than that.
            return _CANCELLED, "The server ends the stream.", ()
        except Exception:  # noqa: BLE001 - told in the log, and to the caller as gRPC would
            _log.exception("A stream of the side door failed.")
            return _UNKNOWN, "The server met an unexpected error.", ()
        return _OK, "", ()

    def _end(self, code: int, sentence: str, metadata: Metadata = ()) -> None:
        """The caller hangs up when it has read the end: who hangs up first may take it away from the other."""
        self._http.finish(code, sentence, metadata)
        self._flush()
        self._loop.call_later(PATIENCE_S, self.hang_up)

    def _flush(self) -> None:
        # While nobody reads, what is said waits where it is counted.
        if self._transport is not None and not self._is_paused and (data := self._http.to_send()):
            self._transport.write(data)
        self._look_for_room()

    def _look_for_room(self) -> None:
        if self._room is not None and (self._transport is None or not (self._is_paused or self._http.is_full)):
            _wake(self._room)
            self._room = None

    def _look(self) -> None:
        """Whether there is anybody: who says nothing is asked, who does not answer is gone."""
        silent_s = self._loop.time() - self._heard_s
        if self.call is None or silent_s >= PING_AFTER_S + ANSWER_WITHIN_S:
            self.hang_up()
            return
        if silent_s >= PING_AFTER_S:
            self._http.ping()
            self._flush()
        self._watch = self._loop.call_later(LOOK_EVERY_S, self._look)


class _Aborted(Exception):
    def __init__(self, code: int, sentence: str, metadata: Metadata) -> None:
        super().__init__(sentence)
        self.said = code, sentence, metadata


def _wake(waiting: asyncio.Future[None]) -> None:
    with suppress(asyncio.InvalidStateError):
        waiting.set_result(None)
