"""Calls that came by another way than gRPC (HTTP), led through the same interceptors to the same services: who
may not do it there may not do it here, and what is refused is refused in the same words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from timerd.model.errors import Unavailable
from timerd.services.transport.handlers import Handler, behaviour_of
from timerd.services.transport.status import Context, abort, problem_of

# Services for everybody. Those between instances have a door of their own.
PUBLIC = "/timerd.v1."
Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class Caller(NamedTuple):
    """What a call has shown: its headers, names in lower case, the names in its certificate, which was verified, and
    where it came from."""

    metadata: Metadata = ()
    certificate: Mapping[str, Sequence[bytes]] = {}
    peer: str = ""


class CallFailure(grpc.aio.AbortError):
    """The call as a whole failed. `trailers` are those that gRPC would have sent."""

    def __init__(self, code: grpc.StatusCode, message: str, trailers: Iterable[tuple[str, str | bytes]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.trailers = dict(trailers)


class LocalContext:
    """What our services and interceptors ask of gRPC's context in a unary call. `end` is called when the reply has been
    written, or cannot be."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lost: Callable[[], None] = lambda: None

    def invocation_metadata(self) -> Metadata:
        return self._caller.metadata

    def peer(self) -> str:
        return self._caller.peer

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return self._caller.certificate

    def on_lost(self, lost: Callable[[], None]) -> None:
        """`lost` is called where the reply does not reach its caller."""
        self._lost = lost

    def end(self, *, is_written: bool) -> None:
        if not is_written:
            self._lost()

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Iterable[tuple[str, str | bytes]] = ()
    ) -> NoReturn:
        raise CallFailure(code, details, trailing_metadata)


class LocalStream(LocalContext):
    """As LocalContext, of a call that is answered with a stream: each reply goes to `write`."""

    def __init__(self, caller: Caller, write: Callable[[Message], Awaitable[None]]) -> None:
        super().__init__(caller)
        self._write = write

    async def write(self, reply: Message) -> None:
        """Raises CallFailure where the caller is gone."""
        try:
            await self._write(reply)
        except ConnectionError as gone:
            raise CallFailure(grpc.StatusCode.CANCELLED, "The caller is gone.") from gone


async def failure_of(error: Exception) -> CallFailure:
    """As the services say it; what is no mistake of the caller is logged."""
    try:
        await abort(cast(Context, LocalContext(Caller())), problem_of(error))
    except CallFailure as failed:
        return failed


class LocalCalls:
    """The services of one server, between `open` and `close`."""

    def __init__(
        self, interceptors: Sequence[grpc.aio.ServerInterceptor], handlers: Sequence[grpc.GenericRpcHandler]
    ) -> None:
        self._handlers = handlers
        self._continuation: Continuation = self._found
        for each in reversed(interceptors):
            self._continuation = partial(each.intercept_service, self._continuation)
        self._is_open = False

    def unary_methods(self, services: Iterable[str]) -> list[str]:
        """The paths of those methods of the services that are one message each way, and are served."""
        pool = descriptor_pool.Default()
        methods = [each for name in services for each in pool.FindServiceByName(name).methods]
        paths = [f"/{each.containing_service.full_name}/{each.name}" for each in methods]
        return [path for path in paths if _is_unary(self._lookup(_Details(path, ())))]

    def open(self) -> None:
        self._is_open = True

    def close(self) -> None:
        """What has begun goes on; what comes is refused."""
        self._is_open = False

    async def call(self, method: str, request: bytes, context: LocalContext) -> Message:
        """`method` as gRPC writes it, `/service/method`. Raises CallFailure."""
        reply = await self._answered(method, request, context, is_stream=False)
        assert isinstance(reply, Message)
        return reply

    async def stream(self, method: str, request: bytes, context: LocalStream) -> None:
        """Until its end, with each reply written as it comes. Raises CallFailure."""
        await self._answered(method, request, context, is_stream=True)

    async def _answered(self, method: str, request: bytes, context: LocalContext, *, is_stream: bool) -> object:
        if not self._is_open:
            away = "The server is starting or going away: repeat the call in a moment."
            raise await failure_of(Unavailable(away, "DRAINING", retry_after_ms=1_000))
        handler: Any = await self._handler(method, context)
        if handler.request_streaming or handler.response_streaming is not is_stream:
            raise CallFailure(grpc.StatusCode.UNIMPLEMENTED, f"{method} is a stream, which needs gRPC.")
        message = handler.request_deserializer(request) if handler.request_deserializer else request
        return await behaviour_of(handler)(message, cast(Context, context))

    async def _handler(self, method: str, context: LocalContext) -> Handler:
        details = cast(grpc.HandlerCallDetails, _Details(method, context.invocation_metadata()))
        found: Any = await self._continuation(details) if method.startswith(PUBLIC) else None
        if found is None:
            raise CallFailure(
                grpc.StatusCode.UNIMPLEMENTED, f"There is no method {method}: see the .proto files for those."
            )
        handler: Handler = found
        return handler

    async def _found(self, details: grpc.HandlerCallDetails) -> Handler | None:
        return self._lookup(details)

    def _lookup(self, details: Any) -> Handler | None:  # noqa: ANN401 - gRPC's HandlerCallDetails, or ours
        each = (handler.service(details) for handler in self._handlers)
        return next((found for found in each if found is not None), None)


def _is_unary(handler: Any) -> bool:  # noqa: ANN401 - the stubs know no attributes of a handler
    return handler is not None and not handler.request_streaming and not handler.response_streaming


class _Details(NamedTuple):
    """As gRPC's HandlerCallDetails."""

    method: str
    invocation_metadata: Metadata
