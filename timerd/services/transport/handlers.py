"""gRPC's method handlers, made anew around what one does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from timerd.services.transport.status import Context

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Behaviour: TypeAlias = Callable[[Any, Context], Any]
Deserializer: TypeAlias = Callable[[bytes], Any]
_NAMES = {False: "unary", True: "stream"}


def behaviour_of(handler: Any) -> Behaviour:  # noqa: ANN401 - the stubs know no attributes of a handler
    behaviour: Behaviour = getattr(handler, _kind(handler))
    return behaviour


def remade(handler: Any, behaviour: Behaviour, deserializer: Deserializer | None = None) -> Handler:  # noqa: ANN401
    """The same method with another behaviour, and with another deserializer where one is given."""
    make = getattr(grpc, f"{_kind(handler)}_rpc_method_handler")
    return make(  # type: ignore[no-any-return]
        behaviour, deserializer or handler.request_deserializer, handler.response_serializer
    )


async def answered(replies: Any, context: Context) -> object:  # noqa: ANN401 - a coroutine, or a generator of replies
    """What a behaviour has returned, carried out."""
    if not inspect.isasyncgen(replies):
        return await replies
    async for reply in replies:
        await context.write(reply)
    return None


def _kind(handler: Any) -> str:  # noqa: ANN401 - as above
    return f"{_NAMES[handler.request_streaming]}_{_NAMES[handler.response_streaming]}"
