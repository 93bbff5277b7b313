"""A door of either kind whose handlers say what they see of their caller; and callers that show a certificate."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from tests.certificates import Pair
from tests.services.native_rig import OPTIONS, PATIENCE_S
from timerd.config import ServerConfig, TlsConfig
from timerd.services.transport.door_choice import make_door
from timerd.services.transport.front_door import FrontDoor, ServedCalls
from timerd.services.transport.grpcio_door import grpcio_server
from timerd.services.transport.listen import Address
from timerd.services.transport.local_calls import LocalCalls
from timerd.services.transport.passed_on import CONNECTION, PassedOn
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire

SERVICE = "timerd.v1.TimerService"
GET, WATCH, SESSION = (f"/{SERVICE}/{name}" for name in ("Get", "Watch", "Session"))
HEADERS = ("x-one", CONNECTION)
_NAMES = ("x509_subject_alternative_name", "x509_common_name")
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def seen(context: Any) -> wire.GetResponse:  # noqa: ANN401 - of either kind
    shown = context.auth_context() or {}
    said = {
        "names": {name: [value.decode("utf-8", "replace") for value in shown.get(name, ())] for name in _NAMES},
        "peer": context.peer().rpartition(":")[0],
        "headers": sorted({name for name, _ in context.invocation_metadata() or () if name in HEADERS}),
    }
    return wire.GetResponse(task=task_pb2.Task(key=json.dumps(said, sort_keys=True)))


async def _get(_: bytes, context: Any) -> wire.GetResponse:  # noqa: ANN401
    return seen(context)


async def _watch(_: bytes, context: Any) -> AsyncIterator[wire.GetResponse]:  # noqa: ANN401
    yield seen(context)


async def _session(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[wire.GetResponse]:  # noqa: ANN401
    async for _ in requests:
        yield seen(context)


def _handlers() -> grpc.GenericRpcHandler:
    def written(reply: wire.GetResponse) -> bytes:
        return reply.SerializeToString()

    methods: dict[str, Any] = {
        "Get": grpc.unary_unary_rpc_method_handler(_get, None, written),
        "Watch": grpc.unary_stream_rpc_method_handler(_watch, None, written),
        "Session": grpc.stream_stream_rpc_method_handler(_session, None, written),
    }
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def made(kind: str, tls: TlsConfig) -> FrontDoor:
    config = ServerConfig(listen="127.0.0.1:0", front_door=kind, tls=tls)  # type: ignore[arg-type]
    passed_on, handlers = PassedOn(), (_handlers(),)
    server = grpcio_server(config, [passed_on])
    server.add_generic_rpc_handlers(handlers)
    return make_door(ServedCalls(config, server, passed_on, LocalCalls((), handlers), [GET], {}))


@asynccontextmanager
async def listening(kind: str, tls: TlsConfig) -> AsyncIterator[str]:
    door = made(kind, tls)
    address = await door.open(Address("127.0.0.1", 0))
    try:
        yield str(address)
    finally:
        await door.close(0)


def channel(address: str, ca: bytes, pair: Pair | None = None) -> grpc.aio.Channel:
    """Of a connection of its own."""
    key, certificate = (pair.key.read_bytes(), pair.certificate.read_bytes()) if pair is not None else (None, None)
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca, key, certificate), options=OPTIONS)


async def seen_by(channel: grpc.aio.Channel, way: str, headers: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    """What the handlers saw of a call that went one of the ways."""
    options: dict[str, Any] = {"timeout": PATIENCE_S, "metadata": tuple(headers)}
    if way == "session":
        stream: Any = channel.stream_stream(SESSION)(**options)
        await stream.write(b"x")
        raw = await stream.read()
        await stream.done_writing()
    elif way == "watch":
        watch: Any = channel.unary_stream(WATCH)
        raw = await watch(b"", **options).read()
    else:
        packing = grpc.Compression.Gzip if way == "compressed" else None
        get: Any = channel.unary_unary(GET)
        raw = await get(bytes(1_000), compression=packing, **options)
    said: dict[str, Any] = json.loads(wire.GetResponse.FromString(raw).task.key)
    return said


# The first is answered by the native door itself; all else is passed on.
WAYS = ("plain", "compressed", "watch", "session")


async def refusal(channel: grpc.aio.Channel, way: str = "plain") -> grpc.StatusCode | None:
    """None: it was answered."""
    try:
        await seen_by(channel, way)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


async def answered(address: str, ca: bytes, pair: Pair | None = None) -> bool:
    """Whether a new connection is."""
    async with channel(address, ca, pair) as opened:
        return await refusal(opened) is None


async def spoken(address: str, offered: Sequence[str]) -> bytes:
    """What the server says to the first words of HTTP/2, where these protocols were offered in the handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if offered:
        context.set_alpn_protocols(list(offered))
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    except (OSError, ssl.SSLError):
        return b""
    try:
        writer.write(HTTP_2)
        return await asyncio.wait_for(reader.read(9), PATIENCE_S)
    except (OSError, ssl.SSLError):
        return b""
    finally:
        writer.transport.abort()
