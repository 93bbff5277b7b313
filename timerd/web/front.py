"""What every request passes on its way to the services: the guard, the line, its deadline; and one form for errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from google.protobuf.message import Message
from grpc import StatusCode

from timerd.config import MIB
from timerd.model.errors import Invalid
from timerd.services.transport.access import WAITING
from timerd.services.transport.local_calls import (
    Caller,
    CallFailure,
    LocalCalls,
    LocalContext,
    LocalStream,
    failure_of,
)
from timerd.web.errors import body_of, response_of
from timerd.web.guard import Guard
from timerd.web.turnstile import LinePlace, Turnstile

# A payload of 1 MiB in base64, with what is around it.
MAX_BODY_BYTES = 2 * MIB
# From a sender that sleeps.
BODY_S = 20.0
MAX_TIMEOUT_DIGITS = 10
# A JSON object a line.
LINES = "application/x-ndjson"
# A proxy that would collect the lines first (nginx) is told not to.
STREAM_HEADERS = {"Content-Type": LINES, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
Respond = Callable[["HttpCall"], Awaitable[web.StreamResponse]]


class HttpCall:
    """One request that was let in."""

    def __init__(self, request: web.Request, body: bytes, calls: LocalCalls, place: LinePlace) -> None:
        self.request = request
        self.body = body
        self._calls = calls
        self._place = place
        self._context = LocalContext(caller_of(request))

    async def rpc(self, method: str, request: bytes) -> Message:
        """Raises CallFailure."""
        if method in WAITING:
            self._place.leave()
            return await self._calls.call(method, request, self._context)
        async with self._place.turn():
            return await self._calls.call(method, request, self._context)

    async def stream(self, method: str, request: bytes, line_of: Callable[[Message], bytes]) -> web.StreamResponse:
        """Replies as lines, as they come. What fails before the first one raises CallFailure; later it is a line."""
        self._place.leave()
        response = web.StreamResponse(headers=STREAM_HEADERS)

        async def write(reply: Message) -> None:
            await response.prepare(self.request)
            await response.write(line_of(reply))

        try:
            await self._calls.stream(method, request, LocalStream(caller_of(self.request), write))
        except CallFailure as failed:
            if not response.prepared:
                raise
            if failed.code is not StatusCode.CANCELLED:
                await response.write(body_of(failed))
        return response

    async def write(self, answer: Respond) -> web.StreamResponse:
        """Its services hear whether the answer has left."""
        is_written = False
        try:
            response = await answer(self)
            await response.prepare(self.request)
            await response.write_eof()
            is_written = True
        finally:
            self._context.end(is_written=is_written)
        return response


class Front:
    """Of one server."""

    def __init__(self, calls: LocalCalls, guard: Guard, turnstile: Turnstile) -> None:
        self._calls = calls
        self._guard = guard
        self._turnstile = turnstile

    def handler(
        self, answer: Respond, *, is_endless: bool = False
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """`is_endless`: an answer that goes on until its caller goes, which has no deadline."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                async with asyncio.timeout(None if is_endless else _timeout_s(request)):
                    return await self._answered(request, answer)
            except CallFailure as failed:
                return response_of(failed)
            except TimeoutError:
                late = "The call took longer than connect-timeout-ms allows. A change may have been made: repeat it."
                return response_of(CallFailure(StatusCode.DEADLINE_EXCEEDED, late))
            except (web.HTTPException, ConnectionError):
                raise
            except Exception as error:  # noqa: BLE001 - logged with an incident id, or ours
                return response_of(await failure_of(error))

        return handle

    async def _answered(self, request: web.Request, answer: Respond) -> web.StreamResponse:
        self._guard.check(request)
        with self._turnstile.place() as place:
            return await HttpCall(request, await _body(request), self._calls, place).write(answer)


async def _body(request: web.Request) -> bytes:
    """Raises Invalid."""
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise _too_large()
    parts, size_bytes = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_any():
                size_bytes += len(part)
                if size_bytes > MAX_BODY_BYTES:
                    raise _too_large()
                parts.append(part)
    except TimeoutError:
        raise Invalid(f"The body did not come within {BODY_S:g} s.", "", "BODY_TOO_SLOW") from None
    except (web.PayloadAccessError, ValueError) as error:
        raise Invalid(f"The body cannot be read: {error}.", "", "MALFORMED") from error
    return b"".join(parts)


def _too_large() -> Invalid:
    return Invalid(
        f"The body has more than {MAX_BODY_BYTES:,} bytes: send less in one request, or use gRPC.",
        "",
        "MESSAGE_TOO_LARGE",
    )


def _timeout_s(request: web.Request) -> float | None:
    """Raises CallFailure."""
    text = request.headers.get("connect-timeout-ms")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_TIMEOUT_DIGITS):
        allowed = f"connect-timeout-ms is a number of milliseconds with up to {MAX_TIMEOUT_DIGITS} digits."
        raise CallFailure(StatusCode.INVALID_ARGUMENT, allowed)
    return int(text) / 1000


def caller_of(request: web.Request) -> Caller:
    # What is no UTF-8 stands for nobody.
    metadata = [(name.lower(), value.encode(errors="replace").decode()) for name, value in request.headers.items()]
    return Caller(metadata, names_of(request.get_extra_info("peercert")), f"http:{request.remote}")


def names_of(certificate: Mapping[str, Any] | None) -> Mapping[str, Sequence[bytes]]:
    """The names in a certificate as `ssl` shows it, under those that gRPC has for them."""
    if not certificate:
        return {}
    alternative = [value.encode() for _, value in certificate.get("subjectAltName", ())]
    subject = [pair for pairs in certificate.get("subject", ()) for pair in pairs]
    common = [value.encode() for name, value in subject if name == "commonName"]
    return {"x509_subject_alternative_name": alternative, "x509_common_name": common}
