"""A connected client's parts: the channel, the session that single calls share, and the unary calls.

Nothing is opened before the first call needs it, because a channel belongs to the event loop that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import grpc.aio

from timerd.sdk.calls import Calls
from timerd.sdk.checks import invalid, optional_name, text
from timerd.sdk.coalescing import Coalescer
from timerd.sdk.connection import DEFAULT_TARGET, Connection
from timerd.sdk.errors import client_is_closed
from timerd.sdk.session import Session
from timerd.sdk.times import Clock, Span, ms_clock, span_ms
from timerd.sdk.traces import Traces
from timerd.v1 import timer_service_pb2 as pb


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
        open_session: Any = channel.stream_stream(
            "/timerd.v1.TimerService/Session",
            request_serializer=None,
            response_deserializer=pb.SessionResponse.FromString,
        )
        target = self._connection.target
        self._session = Session(open_session, target, self._timeout_s)
        self._coalescer = Coalescer(self._session)
        self._calls = Calls(channel, target, self._timeout_s)

    async def close(self) -> None:
        """For good. Calls that still wait for an answer fail."""
        self._is_closed = True
        if self._channel is None:
            return
        channel, self._channel = self._channel, None
        self._calls.close()
        await self._session.close()
        await channel.close()


def one_target(task_id: object, key: object) -> None:
    if (task_id is None) == (key is None):
        raise invalid("Give either a task id or a `key`.", "task_id")
    optional_name(task_id, "task_id")
    optional_name(key, "key")


def set_target(
    request: pb.CancelRequest | pb.GetRequest | pb.RescheduleRequest, task_id: str | None, key: str | None
) -> None:
    if key is not None:
        request.key = key
    elif task_id is not None:
        request.task_id = task_id
