"""Single calls of a `SyncClient`, made in the caller's own thread over a stream of their own (`BlockingStream`).

What finds no answer there goes on over the event loop's session with the same content, so the server takes both for one
call (G2). There is one such stream: a caller who finds it in use goes through the loop at once, where the calls of many
threads share messages.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from google.protobuf.message import Message

from timerd.sdk.async_client import Client
from timerd.sdk.blocking_stream import BlockingStream, NoAnswer
from timerd.sdk.errors import CLOSED, TimerdError, closed, is_retryable
from timerd.sdk.ids import new_request_id
from timerd.sdk.session import refusal_of
from timerd.sdk.singles import Singles, outcomes_in, write_cancel
from timerd.sdk.sync_twin import Caller, Twin, blocking
from timerd.sdk.templates import Template
from timerd.sdk.times import Due
from timerd.sdk.values import CancelOutcome, Task
from timerd.v1 import timer_service_pb2 as pb

P = ParamSpec("P")
Result = TypeVar("Result")
Speaker = TypeVar("Speaker", bound=Singles)
RESOLVE_S = 0.5
# How long a call in another thread may take to see that its connection is gone.
_END_S = 1.0
_NUMERIC = re.compile(r"[0-9.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


class QuickClient(Singles):
    """Its coroutines never wait: `at_once` has what they give."""

    def __init__(self, client: Client, caller: Caller) -> None:
        self.speak_as(client)
        self._client = client
        self._caller = caller
        self._stream = BlockingStream(client._connection, client._timeout_s, self._resolve)
        self._session = _Answered(self)
        self._calls = self._call
        self._turn = threading.Lock()
        self._turn_is_of = 0
        self._process = os.getpid()

    def begin(self) -> bool:
        """Whether it is the caller's turn, until `end`."""
        if self._process != os.getpid():
            # A turn that was somebody's when this process was forked never ends here.
            self._turn, self._turn_is_of, self._process = threading.Lock(), 0, os.getpid()
        if not self._turn.acquire(blocking=False):
            return False
        self._turn_is_of = threading.get_ident()
        return True

    def end(self) -> None:
        """Once more does no harm."""
        if self._turn_is_of == threading.get_ident():
            self._turn_is_of = 0
            self._turn.release()

    def close(self) -> None:
        """For good. A call that is under way in another thread goes on through the loop, if that is still there."""
        self._stream.hang_up()
        if self._turn.acquire(timeout=_END_S):
            self._stream.close()
            self._turn.release()

    def ask(self, request: pb.SessionRequest) -> pb.SessionResponse:
        """Raises NoAnswer. Nobody waits for the turn of one who goes on through the loop."""
        try:
            return self._stream.ask(request)
        finally:
            self.end()

    def repeat(
        self, request: pb.SessionRequest, waited_s: float, may_be_done: bool, refusal: TimerdError | None
    ) -> pb.SessionResponse:
        """Through the loop."""
        try:
            response: pb.SessionResponse = self._caller.run(
                self._client._repeat(request, waited_s, may_be_done, refusal)
            )
        except TimerdError as error:
            if may_be_done and error.reason == CLOSED:
                raise closed(uncertain=True) from None
            raise
        return response

    def _resolve(self, host: str, port: int) -> Sequence[tuple[Any, ...]]:
        """On the loop, for a thread that asks for a name cannot be called back."""
        if self._caller.is_forked or host == "localhost" or _NUMERIC.fullmatch(host):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        limit_s = min(RESOLVE_S, self._client._timeout_s / 4)
        found: Sequence[tuple[Any, ...]] = self._caller.run(_resolved(host, port, limit_s))
        return found

    @property
    def _asks(self) -> _Answered:
        return self._session

    def _open(self) -> None:
        """The stream opens itself."""

    async def _store(self, template: Template, body: bytes, due: Due) -> Task:
        return await self._store_alone(template, body, due)

    async def _cancel(self, task_id: str) -> CancelOutcome:
        request = pb.SessionRequest()
        write_cancel(request, self._namespace, new_request_id(), [task_id])
        return outcomes_in(await self._session.call(request), 1)[0]

    async def _call(self, method: str, request: Message, response_type: type[Message]) -> Message:
        self.end()
        answer: Message = self._caller.run(self._client._unary(method, request, response_type))
        return answer


async def _resolved(host: str, port: int, limit_s: float) -> Sequence[tuple[Any, ...]]:
    """Raises OSError, also where it takes too long."""
    async with asyncio.timeout(limit_s):
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


class _Answered:
    """A session that has its answer when `call` is made."""

    def __init__(self, client: QuickClient) -> None:
        self._client = client

    def new_request(self) -> pb.SessionRequest:
        return pb.SessionRequest()

    async def call(self, request: pb.SessionRequest) -> pb.SessionResponse:
        begun_s, refusal = time.monotonic(), None
        try:
            response = self._client.ask(request)
        except NoAnswer as none:
            may_be_done = none.may_be_done
        else:
            refusal = refusal_of(response)
            if refusal is None:
                return response
            if not is_retryable(refusal):
                raise refusal
            may_be_done = not refusal.reason
        return self._client.repeat(request, time.monotonic() - begun_s, may_be_done, refusal)


class QuickTwin(Twin, Protocol):
    """What a quick method needs of its object."""

    _quick: QuickClient
    _caller: Caller


def quickly(method: Callable[Concatenate[Speaker, P], Awaitable[Result]]) -> Callable[Concatenate[Any, P], Result]:
    """The same method without await, in the caller's own thread where that is free."""
    through_the_loop = blocking(method)

    @wraps(method)
    def call(self: QuickTwin, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        if not self._caller.may_wait() or not self._quick.begin():
            return through_the_loop(self, *args, **kwargs)
        try:
            return at_once(method(self._quick, *args, **kwargs))  # type: ignore[arg-type]
        finally:
            self._quick.end()

    return call


def at_once(work: Awaitable[Result]) -> Result:
    """What a coroutine gives that never waits."""
    try:
        work.__await__().send(None)
    except StopIteration as done:
        value: Result = done.value
        return value
    raise AssertionError("A quick call waited.")
