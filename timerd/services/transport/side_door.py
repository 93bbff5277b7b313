"""A second way in, for the SDK's streams on this machine: the same gRPC bytes on a port of its own, read and written by
the event loop itself.

Through grpcio a message wakes other threads on its way in and on its way out; of what a single call costs the server
that is a good part (docs/performance.md has the figures). grpcio stays the way for everybody: other languages, other
machines, TLS, unary calls. Only where the server has no TLS, so that whoever reaches it may do everything, is there a
side door, and only on loopback.

It is named in the headers of a Session to callers that came over loopback, with a password: between a caller and this
server may be a tunnel or a proxy, whose own machine has something else at that address, even another timerd. Who does
not get in goes on by the ordinary port.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hmac import compare_digest
from typing import Any, TypeAlias

import grpc
import grpc.aio

from timerd.services.transport.listen import Address, is_loopback
from timerd.services.transport.status import Context
from timerd.services.transport.visit import Handler, Visit

HEADER = "timerd-side-door"
# What it has where somebody only asks where the door is.
WHERE = "where"
_LOOPBACK_PEERS = ("ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D")
Behaviour: TypeAlias = Callable[[Any, Context], Awaitable[None]]
# For who has been told the end by a server that stops.
LINGER_S = 0.5
_log = logging.getLogger(__name__)


class SideDoor:
    """`handlers`: what a path leads to; streams both ways only."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self.password = secrets.token_hex(16)
        self.visits: set[Visit] = set()
        self._handlers = handlers
        self._server: asyncio.Server | None = None

    async def open(self, beside: Address) -> str:
        """Where it is and how to get in, as the header says it; empty where there is none: then nobody misses it."""
        host = "::1" if ":" in beside.host and is_loopback(beside.host) else "127.0.0.1"
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: Visit(self._find, self.visits), host, 0
            )
        except OSError as error:
            _log.warning("there is no side door for the SDK's streams, they go by the ordinary port: %s", error)
            return ""
        port = self._server.sockets[0].getsockname()[1]
        return f"{Address(host, port)} {self.password}"

    def close(self) -> None:
        """Nobody new comes in."""
        if self._server is not None:
            self._server.close()
        for visit in self.visits:
            visit.go_away()

    async def emptied(self, grace_s: float) -> None:
        """When all streams have ended; those that do not within the grace are cut."""
        if not self.visits:
            return
        calls = {visit.call for visit in self.visits if visit.call is not None}
        if calls and grace_s:
            await asyncio.wait(calls, timeout=grace_s)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=LINGER_S)
        if grace_s and self.visits:
            # Who hears that its stream has ended hangs up; a caller that is not listening just now does not.
            await asyncio.wait([visit.over for visit in self.visits], timeout=LINGER_S)
        for visit in list(self.visits):
            visit.hang_up()

    def _find(self, fields: Mapping[str, str]) -> Handler | str:
        if not compare_digest(fields.get(HEADER, "").encode(), self.password.encode()):
            return "This is not the server that was meant: use its ordinary port."
        return self._handlers.get(fields.get(":path", "")) or "There is no such stream here: use the ordinary port."


class Offer(grpc.aio.ServerInterceptor):
    """Tells of the side door in the headers of the streams of one path, to callers that came over loopback."""

    def __init__(self, path: str) -> None:
        self.path = path
        # What the header says; empty: there is no side door.
        self.says = ""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None or handler_call_details.method != self.path:
            return handler  # type: ignore[no-any-return]
        codec = (handler.request_deserializer, handler.response_serializer)
        return grpc.stream_stream_rpc_method_handler(self._telling(handler.stream_stream), *codec)

    def _telling(self, behaviour: Behaviour) -> Behaviour:
        async def run(requests: object, context: Context) -> None:
            if self.says and context.peer().startswith(_LOOPBACK_PEERS):
                await context.send_initial_metadata(((HEADER, self.says),))
            if (HEADER, WHERE) not in tuple(context.invocation_metadata() or ()):
                await behaviour(requests, context)

        return run


class _Asked(grpc.HandlerCallDetails):
    def __init__(self, method: str) -> None:
        self.method = method
        self.invocation_metadata = ()


def handlers_of(services: Sequence[grpc.GenericRpcHandler], paths: Sequence[str]) -> dict[str, Handler]:
    found = {path: next(filter(None, (each.service(_Asked(path)) for each in services))) for path in paths}
    return found
