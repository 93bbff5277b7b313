"""A connected client's parts: the channel, the session that single calls share, and the unary calls.

Nothing is opened before the first call needs it, because a channel belongs to the event loop that made it.
"""

from __future__ import annotations

from typing import Self, Unpack

import grpc.aio

from timerd.sdk.scheduling.coalescing import Coalescer
from timerd.sdk.transport import (
    DEFAULT_TARGET,
    Affinity,
    Calls,
    ClientKeywords,
    Connection,
    ConnectOptions,
    Session,
    connect_options,
    opener,
)
from timerd.sdk.values import LONGEST_TIMEOUT, client_is_closed, ms_clock, span_ms, text
from timerd.v1 import timer_service_pb2 as pb

_SESSION = "/timerd.v1.TimerService/Session"


class Link:
    """Opens and closes; what it is used for stands in its subclasses."""

    def __init__(self, target: str | ConnectOptions = DEFAULT_TARGET, **options: Unpack[ClientKeywords]) -> None:
        given = connect_options(type(self).__name__, target, options, ClientKeywords.__optional_keys__)
        self._connection = Connection(given)
        self._namespace = text(given.namespace, "namespace")
        self._clock = ms_clock(given.clock)
        self._tracing = given.tracing
        self._timeout_s = span_ms(given.timeout, "timeout", most=LONGEST_TIMEOUT, may_be_none=False) / 1000
        self._channel: grpc.aio.Channel | None = None
        self._affinity: Affinity
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _open(self) -> None:
        """The first call opens it too; nothing is sent before there is something to say. Where its loop was closed, the
        next one has a channel of its own."""
        if self._channel is not None and not self._affinity.is_over:
            self._affinity.check()
            return
        if self._is_closed:
            raise client_is_closed()
        channel = self._connection.open_channel()
        self._affinity = Affinity()
        target, open_stream = self._connection.target, opener(channel, _SESSION, pb.SessionResponse.FromString)
        self._session = Session(open_stream, target, self._timeout_s)
        self._coalescer = Coalescer(self._session)
        self._calls = Calls(channel, target, self._timeout_s)
        self._channel = channel

    async def close(self) -> None:
        """The call closes the client for good; calls that still wait for an answer fail.

        Raises:
            TimerdError: the client lives in another event loop, which is not closed (OTHER_LOOP).
        """
        channel = self._channel
        if channel is None or self._affinity.is_over or self._affinity.is_forked:
            self._is_closed = True
            return
        self._affinity.check()
        self._is_closed, self._channel = True, None
        self._calls.close()
        await self._session.close()
        await channel.close()
