"""Posts webhooks with aiohttp: one session for each target, so that one that hangs holds up no other.

The address is judged in the factory of sockets, which sees each one right before it is connected to: names, literals,
whatever form they have. A check before the call would be another look-up than that of the connection. Certificates and
`Host` are those of the URL all the same.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from timerd.model.errors import StartupError
from timerd.model.webhooks import ERROR_BYTES, HttpAnswer, NoAnswer, WebhookTarget
from timerd.ports import Poster

# Servers hang up after five seconds of rest; what is sent into a connection that they close is a failed attempt.
KEEP_ALIVE_S = 4.0
# A look-up is shared by the requests of this time. The address is judged each time that it is connected to.
NAMES_S = 10
# (address) -> why there may be no connection to it; empty: there may.
Objection = Callable[[str], str]


class ForbiddenAddress(OSError):
    """The name leads to an address that webhooks may not connect to."""


class AiohttpPoster:
    """Implements ports.Poster. `resolver`: another way to look names up, for tests. The session begins with the first
    request, for a server may yet fail to start. Raises StartupError where `ca_file` cannot be used."""

    def __init__(self, target: WebhookTarget, objection: Objection, resolver: AbstractResolver | None = None) -> None:
        self._target = target
        self._objection = objection
        self._resolver = resolver or OwnThreads()
        self._tls = tls_context(target.ca_file)
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, headers: Mapping[str, str], body: bytes, timeout_ms: int, most_bytes: int = ERROR_BYTES
    ) -> HttpAnswer:
        connect_s = self._target.connect_timeout_ms / 1_000
        limits = aiohttp.ClientTimeout(total=timeout_ms / 1_000, sock_connect=connect_s)
        session = self._session = self._session or self._begin()
        asked = session.post(self._target.url, data=body, headers=headers, timeout=limits, allow_redirects=False)
        try:
            async with asked as answer:
                said = await _beginning(answer.content, most_bytes)
                told = (answer.headers.get(name, "") for name in ("Retry-After", "Content-Type"))
                return HttpAnswer(answer.status, next(told), said, next(told))
        except TimeoutError as error:
            raise NoAnswer(_told_late(error, timeout_ms)) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(f"No answer: {_told(error)}.") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        await self._resolver.close()

    def _begin(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._target.in_flight,
                keepalive_timeout=KEEP_ALIVE_S,
                ttl_dns_cache=NAMES_S,
                resolver=self._resolver,
                socket_factory=self._socket,
                ssl=self._tls,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "timerd"},
        )

    def _socket(self, found: tuple[Any, ...]) -> socket.socket:
        """For aiohttp: right before it connects. Raises ForbiddenAddress."""
        family, kind, protocol, _, (address, *_) = found
        objection = self._objection(address)
        if objection:
            raise ForbiddenAddress(errno.EACCES, f"{address} is {objection}, and webhooks may not connect to it")
        return socket.socket(family, kind, protocol)


class OwnThreads(AbstractResolver):
    """Looks names up in threads of its own: a name server that hangs takes none that others need."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="webhook-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        look_up = partial(socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def open_poster(objection: Objection, target: WebhookTarget) -> Poster:
    return AiohttpPoster(target, objection)


@lru_cache(maxsize=64)
def tls_context(ca_file: str) -> ssl.SSLContext:
    """What a server has to show; to read the authorities of the machine takes a while. Raises StartupError."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise StartupError(f"Cannot read the certificates of {ca_file}: {error}. Name a file in PEM form.") from error


async def _beginning(content: aiohttp.StreamReader, most_bytes: int) -> bytes:
    """What is left of a longer body goes with its connection."""
    found = b""
    while len(found) < most_bytes and (more := await content.read(most_bytes - len(found))):
        found += more
    return found


def _told(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.strerror:
        return f"cannot connect to {error.host}:{error.port}, {error.strerror}"
    return str(error) or type(error).__name__


def _told_late(error: TimeoutError, timeout_ms: int) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "No connection within the time for one (connect_timeout_s)."
    return f"No answer within {timeout_ms / 1_000:g} s."
