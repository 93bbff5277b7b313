"""Unary calls: reads and rare commands, repeated as the same bytes until the deadline.

They go beside the session, because nobody makes ten thousand of them a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from timerd.sdk.transport.backoff import Backoff
from timerd.sdk.values import closed, error_of_rpc, final, is_retryable, sendable, timed_out, unanswered

AnyReply = TypeVar("AnyReply", bound=Message)
Page = TypeVar("Page", bound="PageResponse")
# They change nothing, so there is no outcome that could be unknown.
READS = frozenset(
    {
        *("Get", "Wait", "List", "Count", "ListDeadLetters", "GetServerInfo", "GetCluster", "GetPartition"),
        *("GetOverview", "GetLoad", "ListAuditedCalls"),
        *("GetSchedule", "ListSchedules", "PreviewSchedule", "GetBackfill", "ListBackfills"),
    }
)


class PageRequest(Protocol):
    """A request for one page."""

    page_token: str


class PageResponse(Protocol):
    """A page and where the next one starts."""

    next_page_token: str


class Calls:
    """The unary methods of the server, each by its name."""

    def __init__(self, channel: grpc.aio.Channel, target: str, timeout_s: float) -> None:
        self._channel = channel
        self._target = target
        self._timeout_s = timeout_s
        self._is_closed = False

    def close(self) -> None:
        """Calls that are cut short from here on say so: for gRPC they are cancelled, which their callers are not."""
        self._is_closed = True

    async def __call__(
        self,
        method: str,
        request: Message,
        response_type: type[AnyReply],
        service: str = "TimerService",
        wait_s: float = 0.0,
        again: Callable[[], object] = lambda: None,
        beyond_s: float | None = None,
    ) -> AnyReply:
        """`wait_s`: how long the server may wait before it answers. `again`: may change before each further try what is
        no part of a repeat. `beyond_s`: for how long it is tried beyond `wait_s`; None: as all calls are."""
        call: Any = self._channel.unary_unary(
            f"/timerd.v1.{service}/{method}",
            request_serializer=None,
            response_deserializer=response_type.FromString,
        )
        data = sendable(request.SerializeToString(deterministic=True))
        loop, backoff, uncertain = asyncio.get_running_loop(), Backoff(), False
        timeout_s = self._timeout_s if beyond_s is None else beyond_s
        deadline_s = loop.time() + timeout_s + wait_s
        while True:
            try:
                return await call(data, timeout=max(0.001, deadline_s - loop.time()))  # type: ignore[no-any-return]
            except grpc.aio.AioRpcError as failed:
                error = error_of_rpc(failed)
            except asyncio.CancelledError:
                if self._is_closed:
                    raise closed(uncertain=method not in READS, was_sent=True) from None
                raise
            if not is_retryable(error):
                raise final(error, uncertain and method not in READS)
            uncertain = uncertain or not error.reason
            pause_s = max(error.retry_after or 0.0, backoff.next_s())
            if pause_s >= deadline_s - loop.time():
                say = unanswered if method in READS else timed_out
                raise say(error, uncertain, timeout_s + wait_s if beyond_s is not None else timeout_s, self._target)
            await asyncio.sleep(pause_s)
            again()
            data = sendable(request.SerializeToString(deterministic=True))

    async def stream(
        self, method: str, request: Message, response_type: type[AnyReply]
    ) -> AsyncGenerator[AnyReply, None]:
        """Replies as they come, until the stream ends. Raises TimerdError where it breaks."""
        call: Any = self._channel.unary_stream(
            f"/timerd.v1.TimerService/{method}",
            request_serializer=None,
            response_deserializer=response_type.FromString,
        )
        replies = call(sendable(request.SerializeToString(deterministic=True)))
        try:
            async for reply in replies:
                yield reply
        except grpc.aio.AioRpcError as failed:
            raise error_of_rpc(failed) from None
        except asyncio.CancelledError:
            if self._is_closed:
                raise closed(uncertain=False, was_sent=True) from None
            raise
        finally:
            replies.cancel()


async def pages(request: PageRequest, ask: Callable[[], Awaitable[Page]]) -> AsyncIterator[Page]:
    """Pages until the token is empty; pages in between may be short or empty."""
    while True:
        page = await ask()
        yield page
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token
