"""The native door beside grpcio's: one call to each, and what came back in a form that can be compared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import grpc
import grpc.aio
import pytest

from timerd.services.server import ApiServer
from timerd.services.transport.native_door import NativeDoor

NOT_INSTALLED = "timerd-native is not installed: `make native` builds it, where cargo is"
needs_native = pytest.mark.skipif(find_spec("timerd_native") is None, reason=NOT_INSTALLED)
DOORS = ("grpcio", "native")
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
# Each incident has its own.
_INCIDENT = re.compile(rb"incident [0-9a-f]{8}")
PATIENCE_S = 20.0


class Said(NamedTuple):
    """All that a caller sees of the end of a call."""

    code: grpc.StatusCode
    details: str
    trailers: tuple[tuple[str, str | bytes], ...]
    reply: bytes

    def alike(self) -> Said:
        """Without what is another one in each call."""
        trailers = sorted((name, _masked(value)) for name, value in self.trailers)
        return Said(self.code, str(_masked(self.details)), tuple(trailers), self.reply)


def _masked(value: str | bytes) -> str | bytes:
    if isinstance(value, str):
        return _INCIDENT.sub(b"incident", value.encode()).decode()
    return _INCIDENT.sub(b"incident", value)


async def said(channel: grpc.aio.Channel, path: str, raw: bytes, **options: Any) -> Said:  # noqa: ANN401
    """As bytes: nothing is read on the way."""
    method: Any = channel.unary_unary(path)
    call = method(raw, timeout=PATIENCE_S, **options)
    try:
        reply = bytes(await call)
    except grpc.aio.AioRpcError as error:
        return Said(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()), b"")
    return Said(grpc.StatusCode.OK, "", tuple(await call.trailing_metadata() or ()), reply)


@asynccontextmanager
async def channels(*targets: str) -> AsyncIterator[list[grpc.aio.Channel]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(grpc.aio.insecure_channel(each, options=OPTIONS)) for each in targets]


async def until(condition: Callable[[], bool]) -> None:
    """What happens in the thread of the door tells no event."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def door_of(server: ApiServer) -> NativeDoor:
    door = server.door
    assert isinstance(door, NativeDoor)
    return door
