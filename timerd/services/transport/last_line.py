"""The last line before the wire, for every service, also those of others: whatever comes in and whatever goes wrong,
the caller gets a sentence without internals, and the log has a trace of our own mistakes only.

What bytes of a stranger could put into the log is not written there: they may be somebody's secret, and nobody could
stop them from filling it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.services.transport.decoding import malformed
from timerd.services.transport.handlers import Behaviour, Deserializer, Handler, answered, behaviour_of, remade
from timerd.services.transport.status import Context, abort, problem_of

# gRPC learns that a connection is gone soon after a write on it has failed, and then ends the call itself.
GONE_S = 5.0
_LOG = logging.getLogger("timerd.api")
_GRPC_LOG = logging.getLogger("grpc._cython.cygrpc")
_NOT_TEXT = "Invalid encoding on"


class LastLine(grpc.aio.ServerInterceptor):
    """Outermost, so that it hears of what the other interceptors raise."""

    def __init__(self) -> None:
        # Method -> what it is made of, and what was made of it.
        self._made: dict[str, tuple[Handler, Handler]] = {}
        _GRPC_LOG.addFilter(_is_ours)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return None
        method = str(handler_call_details.method)
        inner, outer = self._made.get(method, (None, None))
        if outer is None or inner is not handler:
            outer = remade(handler, _surely(behaviour_of(handler), method), _read_surely(handler.request_deserializer))
            self._made[method] = (handler, outer)
        return outer


def _is_ours(record: logging.LogRecord) -> bool:
    """What is left to gRPC is of connections that broke, and of headers and paths that are no text."""
    error = record.exc_info[1] if record.exc_info else None
    of_callers = isinstance(error, UnicodeDecodeError | grpc.aio.InternalError)
    return not (of_callers or str(record.msg).startswith(_NOT_TEXT))


class _Unreadable:
    """Stands for bytes that are no message of a service that takes messages as gRPC reads them."""


def _read_surely(deserializer: Deserializer) -> Deserializer:
    def read(raw: bytes) -> object:
        try:
            return deserializer(raw)
        except Exception:  # noqa: BLE001 - the services have readers of their own; of others nobody knows what they raise
            return _Unreadable()

    return read


def _checked(request: Any, method: str) -> Any:  # noqa: ANN401 - a message, or an iterator of them
    """Raises Invalid, or iterates until it does."""
    if isinstance(request, _Unreadable):
        raise malformed(f"request of {method}")
    return _each_checked(request, method) if hasattr(request, "__aiter__") else request


async def _each_checked(requests: AsyncIterator[Any], method: str) -> AsyncIterator[Any]:
    async for request in requests:
        yield _checked(request, method)


def _surely(behaviour: Behaviour, method: str) -> Behaviour:
    async def run(request: Any, context: Context) -> object:  # noqa: ANN401 - a message, or an iterator of them
        try:
            return await answered(behaviour(_checked(request, method), context), context)
        except grpc.aio.InternalError as error:
            # A write has failed. Where that is because the caller is gone, this call is cancelled meanwhile.
            await asyncio.sleep(GONE_S)
            _LOG.error("A write of %s has failed, and its caller is there: %s", method, error, exc_info=error)
            raise
        except grpc.aio.BaseError:
            raise
        except Exception as error:  # noqa: BLE001 - logged with an incident id, or ours
            await abort(context, problem_of(error))

    return run
