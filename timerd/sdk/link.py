"""A connected client's parts: the channel, the session that single calls share, and the unary calls.

Nothing is opened before the first call needs it, because a channel belongs to the event loop that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import grpc.aio
from google.protobuf.message import Message

from timerd.sdk.calls import Calls, Response
from timerd.sdk.checks import text
from timerd.sdk.coalescing import Coalescer
from timerd.sdk.connection import DEFAULT_TARGET, Connection
from timerd.sdk.direct_stream import Opener
from timerd.sdk.errors import TimerdError, client_is_closed
from timerd.sdk.session import Session
from timerd.sdk.times import Clock, Span, ms_clock, span_ms
from timerd.sdk.traces import Traces
from timerd.v1 import timer_service_pb2 as pb

_SESSION = "/timerd.v1.TimerService/Session"


class Link:
    """Opens and closes; what it is used for stands in its subclasses."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        namespace: str = "default",
        timeout: Span = 30.0,
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
        """`clock`: what delays count from, where it is not the machine's own; `tracing`: `timerd.tracing.Tracing()`."""
        target = text(target, "target")
        self._connection = Connection(
            target, tls, ca_file, cert_file, key_file, tls_server_name, channel_options, token, token_file
        )
        self._namespace = text(namespace, "namespace")
        self._clock = ms_clock(clock)
        self._tracing = tracing
        self._timeout_s = span_ms(timeout, "timeout") / 1000
        self._channel: grpc.aio.Channel | None = None
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> None:
        """The first call opens it too; nothing is sent before there is something to say."""
        if self._channel is not None:
            return
        if self._is_closed:
            raise client_is_closed()
        self._channel = channel = self._connection.open_channel()
        target, opener = (
            self._connection.target,
            Opener(self._connection, channel, _SESSION, pb.SessionResponse.FromString),
        )
        self._session = Session(opener.open, target, self._timeout_s)
        self._coalescer = Coalescer(self._session)
        self._calls = Calls(channel, target, self._timeout_s)

    async def _unary(self, method: str, request: Message, response_type: type[Response]) -> Response:
        """A unary call by its name."""
        self._open()
        return await self._calls(method, request, response_type)

    async def _repeat(
        self, request: pb.SessionRequest, waited_s: float, may_be_done: bool, refusal: TimerdError | None
    ) -> pb.SessionResponse:
        """A message of a session that was asked in another way first."""
        self._open()
        return await self._session.repeat(request, waited_s, may_be_done=may_be_done, refusal=refusal)

    async def close(self) -> None:
        """For good. Calls that still wait for an answer fail."""
        self._is_closed = True
        if self._channel is None:
            return
        channel, self._channel = self._channel, None
        self._calls.close()
        await self._session.close()
        await channel.close()
