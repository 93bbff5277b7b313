"""Calls that the native door passes on to grpcio's server: to that they come from the door, and without a certificate.
The door writes into each by which connection it came, over whatever its caller wrote there; so what that caller has
shown is known here, and roles are given as if it had come straight.

The socket is in a folder of the user that the server runs as. Who is that user may do all that the server may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import grpc
import grpc.aio

from timerd.services.transport.handlers import Behaviour, Handler, answered, behaviour_of, remade
from timerd.services.transport.local_calls import Caller, Metadata
from timerd.services.transport.status import Context

# As in native/src/relay.rs.
CONNECTION = "timerd-connection"
ShownBy = Callable[[int], Caller | None]


class PassedOn(grpc.aio.ServerInterceptor):
    """In force from `know` on. Before it, the header is one like others."""

    def __init__(self) -> None:
        self._shown: ShownBy | None = None

    def know(self, shown: ShownBy) -> None:
        """`shown`: what the caller at the other end of a connection has shown, while that is open."""
        self._shown = shown

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or self._shown is None:
            return handler
        return remade(handler, _named(behaviour_of(handler), self._shown))


def _named(behaviour: Behaviour, shown: ShownBy) -> Behaviour:
    async def run(request: object, context: Context) -> object:
        passed = cast(Context, PassedContext(context, shown))
        return await answered(behaviour(request, passed), passed)

    return run


class PassedContext:
    """gRPC's own, but for where the call came from."""

    def __init__(self, context: Context, shown: ShownBy) -> None:
        self._context = context
        metadata = cast(Metadata, context.invocation_metadata() or ())
        self._metadata = tuple((name, value) for name, value in metadata if name != CONNECTION)
        # A connection that is gone has shown nothing.
        self._caller = _caller_of(metadata, shown) or Caller()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever gRPC's has
        return getattr(self._context, name)

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def peer(self) -> str:
        return self._caller.peer

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return self._caller.certificate


def _caller_of(metadata: Metadata, shown: ShownBy) -> Caller | None:
    number = next((value for name, value in metadata if name == CONNECTION), "")
    try:
        return shown(int(number))
    except (ValueError, OverflowError):
        return None
