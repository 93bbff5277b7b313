"""Who receives webhooks in these tests: a real HTTP server on loopback, and the verification that a receiver does.

The verification is written from the text of Standard Webhooks 1.0.0 and shares nothing with timerd.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def attempt(self) -> int:
        return int(self.headers["timerd-attempt"])


Answer = Callable[[Received], Awaitable[web.Response]]


async def accept(_: Received) -> web.Response:
    return web.Response(status=204)


async def never(_: Received) -> web.Response:
    """Takes the request, and says nothing."""
    await asyncio.Event().wait()
    raise AssertionError


def statuses(*codes: int, headers: Mapping[str, str] | None = None, text: str = "") -> Answer:
    """One after the other; the last one again and again."""
    left = list(codes)

    async def answer(_: Received) -> web.Response:
        code = left.pop(0) if len(left) > 1 else left[0]
        return web.Response(status=code, headers=headers, text=text)

    return answer


class Receiver:
    """`got`: every request, in order. `connections`: how many were opened to it. `most_open`: how many requests were
    open at one time."""

    def __init__(self, answer: Answer = accept) -> None:
        self.answer = answer
        self.got: list[Received] = []
        self.connections = 0
        self.open = self.most_open = 0
        self.url = ""
        self.port = 0
        self._changed = asyncio.Condition()

    async def until(self, requests: int) -> list[Received]:
        """The test's own time limit is what ends a wait for ever."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.got) >= requests)
        return self.got

    async def take(self, request: web.BaseRequest) -> web.Response:
        received = Received(request.path_qs, dict(request.headers), await request.read())
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with self._changed:
                self.got.append(received)
                self._changed.notify_all()
            return await self.answer(received)
        finally:
            self.open -= 1


@asynccontextmanager
async def receiving(
    answer: Answer = accept, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = web.Server(receiver.take, handler_cancellation=True)

    def connected() -> asyncio.Protocol:
        receiver.connections += 1
        return server()

    listening = await asyncio.get_running_loop().create_server(connected, host, port, ssl=tls)
    receiver.port = listening.sockets[0].getsockname()[1]
    receiver.url = f"http://{host}:{receiver.port}/hook"
    try:
        yield receiver
    finally:
        listening.close()
        await server.shutdown(0.1)
        await listening.wait_closed()


def secret_of(seed: str) -> str:
    """A secret as it is written down; in earnest it is random."""
    return "whsec_" + base64.b64encode(hashlib.sha256(seed.encode()).digest()).decode()


def is_verified(received: Received, secret: str, now_s: float) -> bool:
    """As a receiver does it: the key is what follows `whsec_`, in base64; signed is id, timestamp and body with full
    stops between them; one of the signatures of version 1 has to fit; a timestamp that is far off is a replay."""
    webhook_id, timestamp = received.headers["webhook-id"], received.headers["webhook-timestamp"]
    if abs(now_s - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b".".join([webhook_id.encode(), timestamp.encode(), received.body])
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    offered = [each.partition(",") for each in received.headers["webhook-signature"].split(" ")]
    return any(version == "v1" and hmac.compare_digest(signature, expected) for version, _, signature in offered)
