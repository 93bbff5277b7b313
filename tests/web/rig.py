"""A whole server whose clock the test turns, met by HTTP on a port of loopback."""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from timerd.config import HttpConfig, ServerConfig
from timerd.observability.http import HttpPort
from timerd.services.transport.listen import Address
from timerd.services.transport.local_calls import LocalCalls
from timerd.testing import Server
from timerd.v1 import schedule_service_pb2, timer_service_pb2, work_service_pb2
from timerd.web.routes import routes_of

FILES = (timer_service_pb2, work_service_pb2, schedule_service_pb2)
SERVICES: list[ServiceDescriptor] = [each for file in FILES for each in file.DESCRIPTOR.services_by_name.values()]
UNARY: list[MethodDescriptor] = [
    method for each in SERVICES for method in each.methods if not (method.client_streaming or method.server_streaming)
]
HTTP = HttpConfig(listen="127.0.0.1:0")
CONFIG = ServerConfig(listen="127.0.0.1:0", synchronous="normal", http=HTTP)
JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was answered
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """Of what was refused."""
        found = [each["debug"].get("reason") for each in self.json.get("details", ())]
        return str(next(filter(None, found), ""))


class Caller:
    """Whoever calls by HTTP, on one connection or several."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self.base = base

    async def ask(
        self, verb: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        data = io.BytesIO(body) if body is not None else None
        async with self._session.request(verb, self.base + path, data=data, headers=headers) as response:
            return Answer(response.status, dict(response.headers), await response.read())

    async def rpc(self, method: str, asked: object, headers: Mapping[str, str] | None = None) -> Answer:
        """`method` as Service/Method; `asked`: what is written as JSON, or its text."""
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        return await self.ask("POST", f"/timerd.v1.{method}", body, {**JSON, **(headers or {})})


@asynccontextmanager
async def http_port(
    config: ServerConfig, calls: LocalCalls, tls: ssl.SSLContext | None = None, trusted: ssl.SSLContext | None = None
) -> AsyncIterator[Caller]:
    """`trusted`: whom the caller trusts, and what it shows."""

    async def metrics() -> bytes:
        return b""

    async def unready() -> dict[str, dict[str, str]]:
        return {}

    port = HttpPort(metrics, unready, dict, routes_of(config, calls))
    address = await port.start(Address("127.0.0.1", 0), tls)
    connector = aiohttp.TCPConnector(ssl=trusted or True)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            yield Caller(session, f"{'https' if tls else 'http'}://{address}")
        finally:
            await port.stop()


class Rig(NamedTuple):
    server: Server
    caller: Caller
    channel: grpc.aio.Channel


@asynccontextmanager
async def serving(config: ServerConfig = CONFIG) -> AsyncIterator[Rig]:
    async with (
        Server(config=config) as server,
        http_port(config, server.node.server.local) as caller,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        yield Rig(server, caller, channel)
