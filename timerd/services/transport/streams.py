"""How many streams may be open at one time, of whatever service: an idle stream costs memory too (guarantee G13). And
what is still being handled when the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio

from timerd.model.errors import Overloaded
from timerd.services.transport.handlers import Behaviour, Handler, answered, behaviour_of, remade
from timerd.services.transport.status import Context, abort, problem_of

RETRY_AFTER_MS = 1_000
# What gRPC itself still does when the handler of a call has ended.
_TURNS = 3


class Unfinished(grpc.aio.ServerInterceptor):
    """The calls that are being handled. A server that has stopped still winds up those that it cut short; a loop that
    is closed meanwhile would leave a trace of each."""

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[Any]] = set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        # The task in which gRPC handles the whole call.
        call = asyncio.current_task()
        if call is not None:
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        return await continuation(handler_call_details)

    async def wound_up(self, timeout_s: float) -> None:
        """When all of them have ended."""
        if self._calls:
            await asyncio.wait(set(self._calls), timeout=timeout_s)
        for _ in range(_TURNS):
            await asyncio.sleep(0)


class StreamLimit(grpc.aio.ServerInterceptor):
    """Refuses streams beyond the limit before their handler sees them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open = 0

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler: Any = await continuation(handler_call_details)
        if handler is None or not handler.response_streaming:
            return handler  # type: ignore[no-any-return]
        return remade(handler, self._limited(behaviour_of(handler)))

    def _limited(self, behaviour: Behaviour) -> Behaviour:
        async def run(requests: object, context: Context) -> None:
            if self.open >= self.limit:
                await abort(context, problem_of(self._refusal()))
            with self._one():
                await answered(behaviour(requests, context), context)

        return run

    @contextmanager
    def _one(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def _refusal(self) -> Overloaded:
        return Overloaded(
            f"{self.open} streams are open and the server allows {self.limit}: close those that idle (one Session or "
            "Work stream per process is enough), or raise `serve --max-streams`.",
            "TOO_MANY_STREAMS",
            retry_after_ms=RETRY_AFTER_MS,
        )
