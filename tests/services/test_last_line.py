"""Whatever comes in over the wire, at whichever service: a sentence for the caller, and no trace in the log."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from timerd.peer.keda import externalscaler_pb2
from timerd.peer.v1 import inspect_service_pb2, peer_service_pb2, relay_pb2
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.peers.peer_wire import TOKEN_HEADER
from timerd.services.server import REFLECTION_V1
from timerd.services.transport.front_door import GRPCIO
from timerd.services.transport.last_line import LastLine
from timerd.testing import Cluster
from timerd.testing.cluster import Running
from timerd.v1 import timer_service_pb2, work_service_pb2

FILES: list[Any] = [
    *(timer_service_pb2, work_service_pb2, peer_service_pb2, inspect_service_pb2, relay_pb2, externalscaler_pb2),
    *(health_pb2, reflection_pb2),
]
METHODS: list[MethodDescriptor] = [
    method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
]
INTERNAL = "timerd.peer."
# Each begins a field of a kind that there is none of.
NO_MESSAGE = b"\xff\xff"
Metadata = tuple[tuple[str, str], ...]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with Cluster("a") as cluster:
        yield cluster.instances["a"]


@pytest.fixture
async def channel(running: Running) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(running.node.address) as channel:
        yield channel


@pytest.fixture(autouse=True)
def no_trace(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """But for gRPC's own poller, which two event loops in one process share."""
    yield
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert [sentence for sentence in said if "PollerCompletionQueue" not in sentence] == []


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def secret_of(running: Running) -> Metadata:
    assert running.node.peering is not None
    return ((TOKEN_HEADER, dict(running.node.peering.peers.metadata)[TOKEN_HEADER]),)


async def said(channel: grpc.aio.Channel, method: Any, path: str, raw: bytes, metadata: Metadata = ()) -> list[bytes]:  # noqa: ANN401
    """All replies, as bytes. Raises AioRpcError."""
    if not method.client_streaming:
        make: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
        call: Any = make(path)(raw, metadata=metadata, timeout=20)
        return [reply async for reply in call] if method.server_streaming else [await call]
    stream: Any = channel.stream_stream(path)(metadata=metadata, timeout=20)
    await stream.write(raw)
    await stream.done_writing()
    return [reply async for reply in stream]


async def refusal(channel: grpc.aio.Channel, method: Any, path: str, metadata: Metadata = ()) -> grpc.aio.AioRpcError:  # noqa: ANN401
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await said(channel, method, path, NO_MESSAGE, metadata)
    return caught.value


async def test_bytes_that_are_no_message_are_answered_by_every_method(
    running: Running, channel: grpc.aio.Channel
) -> None:
    for method in METHODS:
        path = path_of(method)
        if method.name == "Session":
            _window, answer = await said(channel, method, path, NO_MESSAGE)
            assert b"no valid timerd.v1.SessionRequest" in answer
            continue
        metadata = secret_of(running) if path[1:].startswith(INTERNAL) else ()
        error = await refusal(channel, method, path, metadata)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, path
        assert "The bytes received are no valid" in str(error.details()), path


async def test_reflection_by_its_newer_name_too(channel: grpc.aio.Channel) -> None:
    method = METHODS[-1]
    error = await refusal(channel, method, f"/{REFLECTION_V1}/{method.name}")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_who_shows_no_secret_is_not_even_read(channel: grpc.aio.Channel) -> None:
    for method in METHODS:
        if path_of(method)[1:].startswith(INTERNAL):
            error = await refusal(channel, method, path_of(method))
            assert error.code() is grpc.StatusCode.PERMISSION_DENIED, path_of(method)


async def test_empty_messages_of_other_instances_are_answered(running: Running, channel: grpc.aio.Channel) -> None:
    codes = set()
    for method in METHODS:
        if path_of(method)[1:].startswith(INTERNAL):
            try:
                await said(channel, method, path_of(method), b"", secret_of(running))
            except grpc.aio.AioRpcError as error:
                codes.add(error.code())
    assert codes <= {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT}


@pytest.mark.parametrize(
    ("path", "value"), [(b"/timerd.v1.TimerService/GetServerInfo", b"\xff"), (b"/\xff/\xfe", b"x")]
)
async def test_a_header_that_is_no_text_leaves_no_trace(running: Running, path: bytes, value: bytes) -> None:
    """The call is answered, or refused."""
    if running.node.server.door.name != GRPCIO:
        pytest.skip("it reads frames as grpcio writes them, and the native door hangs up on a path that is no text")
    host, _, port = running.node.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")]
    fields += [(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"x-note", value)]
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    writer.write(preface + frame(1, 4, 1, b"".join(literal(*each) for each in fields)) + frame(0, 1, 1, bytes(5)))
    async with asyncio.timeout(20):
        got = b""
        while b"grpc-status" not in got:
            got += await reader.read(1000)
    writer.close()
    await writer.wait_closed()


def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    """Of HTTP/2."""
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name: bytes, value: bytes) -> bytes:
    """A header as it is."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


async def test_a_write_that_fails_as_its_caller_goes_leaves_no_trace() -> None:
    ended = asyncio.Event()

    async def behaviour(_: object, context: Any) -> None:  # noqa: ANN401 - grpc's
        try:
            # Two at once are the surest way to make one fail.
            await asyncio.gather(context.write(b"a"), context.write(b"b"))
        except grpc.aio.InternalError:
            ended.set()
            raise

    server = grpc.aio.server(interceptors=[LastLine()])
    handler: Any = grpc.stream_stream_rpc_method_handler(behaviour)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", {"M": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream("/s/M")()
        await asyncio.wait_for(ended.wait(), 20)
        call.cancel()
    # With no time to end, gRPC itself ends what still runs, and says so.
    await server.stop(20)


async def test_what_nobody_foresaw_is_an_incident_and_no_class_of_python(
    running: Running, channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("secret of the house")

    monkeypatch.setattr(OwnMachines, "token", fail)
    look = next(method for method in METHODS if method.name == "Look")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await said(channel, look, path_of(look), b"", secret_of(running))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "KeyError" not in str(caught.value.details())
    assert "under incident" in str(caught.value.details())
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [error.name for error in errors if "PollerCompletionQueue" not in error.getMessage()] == ["timerd.api"]
    caplog.clear()
