"""Streams on the loop's own socket: what grpcio did before has to come out the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tests.sdk.fake_server import FakeServer, deliver_of
from timerd.client import Client, TimerdError, Unavailable
from timerd.sdk import direct_stream
from timerd.sdk.connection import Connection
from timerd.sdk.direct_stream import DirectStream, Opener
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery, Worker

SOON = datetime.now(UTC) + timedelta(minutes=5)
SESSION = "/timerd.v1.TimerService/Session"
Heard = list[pb.SessionResponse]


@asynccontextmanager
async def stream_to(target: str, heard: Heard) -> AsyncIterator[DirectStream[pb.SessionResponse]]:
    connection = Connection(target)
    channel = connection.open_channel()
    yield DirectStream(Opener(connection, channel, SESSION, pb.SessionResponse.FromString), heard.append)
    await channel.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of another's state
            await asyncio.sleep(0.005)


def schedule(payload: bytes) -> bytes:
    request = pb.SessionRequest(sequence=1)
    request.schedule.request_id = "r"
    request.schedule.template.queue = "q"
    request.schedule.columns.payloads = payload
    request.schedule.columns.payload_lengths.append(len(payload))
    request.schedule.columns.fire_at_ms.append(1)
    return request.SerializeToString()


async def test_it_says_hears_and_says_goodbye(server: FakeServer) -> None:
    heard: Heard = []
    async with stream_to(server.target, heard) as stream:
        # Before it runs: it goes first.
        stream.send(schedule(b"early"))
        running = asyncio.create_task(stream.run())
        await until(lambda: len(heard) == 2)
        stream.close()
        assert await running is None
    assert heard[0].HasField("window")
    assert heard[1].schedule.stored == 1
    assert stream._through_grpc is None


async def test_a_large_message_waits_for_room_and_arrives(server: FakeServer) -> None:
    """More than the server takes in at one time without a word."""
    heard: Heard = []
    payload = bytes(range(256)) * 12_000
    async with stream_to(server.target, heard) as stream:
        running = asyncio.create_task(stream.run())
        stream.send(schedule(payload))
        await until(lambda: len(heard) == 2)
        stream.close()
        await running
    assert server.timers.payloads == [payload]


async def test_how_the_server_ends_it_comes_through(server: FakeServer) -> None:
    server.timers.refuses_sessions = grpc.StatusCode.PERMISSION_DENIED
    async with stream_to(server.target, []) as stream:
        ended = await stream.run()
    assert ended is not None
    assert (ended.code, str(ended)) == ("PERMISSION_DENIED", "not for you")


async def test_where_nobody_listens_grpcio_says_so() -> None:
    async with stream_to("127.0.0.1:1", []) as stream:
        ended = await stream.run()
    assert stream._through_grpc is not None
    assert isinstance(ended, Unavailable)
    assert ended.reason == "NOT_SENT"


async def test_a_target_that_only_grpc_resolves_works_as_ever(server: FakeServer) -> None:
    heard: Heard = []
    async with stream_to(f"ipv4:{server.target}", heard) as stream:
        stream.send(schedule(b"early"))
        running = asyncio.create_task(stream.run())
        await until(lambda: len(heard) == 2)
        stream.close()
        assert await running is None
    assert stream._through_grpc is not None
    assert server.timers.payloads == [b"early"]


async def test_a_message_that_cannot_be_handled_ends_nothing(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard: Heard = []

    def hear(response: pb.SessionResponse) -> None:
        heard.append(response)
        if response.HasField("window"):
            raise LookupError("spoilt")

    connection = Connection(server.target)
    channel = connection.open_channel()
    stream = DirectStream(Opener(connection, channel, SESSION, pb.SessionResponse.FromString), hear)
    stream.send(schedule(b"x"))
    running = asyncio.create_task(stream.run())
    await until(lambda: len(heard) == 2)
    stream.close()
    await running
    await channel.close()
    assert "could not be handled" in caplog.text


# -- silence ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(answers: bytes = b"") -> AsyncIterator[tuple[str, bytearray]]:
    """Speaks HTTP/2 so far that it takes everything in, and answers each piece with `answers`."""
    came, writers = bytearray(), list[asyncio.StreamWriter]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(SETTINGS)
        while data := await reader.read(65_536):
            came.extend(data)
            writer.write(answers)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    for writer in writers:
        writer.close()
    server.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


SETTINGS = bytes(3) + b"\x04" + bytes(5)
PING = b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)
PONG = b"\0\0\x08\x06\1\0\0\0\0" + bytes(8)


async def test_a_server_that_is_silent_is_asked_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"PING_AFTER_S": 0.05, "ANSWER_WITHIN_S": 0.2, "LOOK_EVERY_S": 0.01}.items():
        monkeypatch.setattr(direct_stream, name, seconds)
    async with listening() as (target, came), stream_to(target, []) as stream:
        ended = await stream.run()
    assert "silent" in str(ended)
    assert PING in came


async def test_a_server_that_answers_pings_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"PING_AFTER_S": 0.02, "ANSWER_WITHIN_S": 60.0, "LOOK_EVERY_S": 0.01}.items():
        monkeypatch.setattr(direct_stream, name, seconds)
    async with listening(PONG) as (target, came), stream_to(target, []) as stream:
        running = asyncio.create_task(stream.run())
        await until(lambda: came.count(PING) > 3)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_who_says_that_pings_come_too_often_is_asked_less_often() -> None:
    connection = Connection("127.0.0.1:1")
    channel = connection.open_channel()
    opener = Opener(connection, channel, SESSION, pb.SessionResponse.FromString)
    calm = b"\0\0\x08\x07\0\0\0\0\0" + (1).to_bytes(4) + (11).to_bytes(4)
    for _ in range(2):
        stream = DirectStream(opener, lambda _: None)
        link = stream.new_link()
        link.data_received(calm)
        link.connection_lost(None)
    await channel.close()
    assert opener.pings_after == 4.0


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""], ids=["another protocol", "hangs up"])
async def test_who_does_not_speak_http2_is_told_nothing_and_grpcio_says_why(said: bytes) -> None:
    came = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.extend(await reader.read(65_536))
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with stream_to(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", []) as stream:
        stream.send(schedule(b"secret"))
        ended = await stream.run()
    server.close()
    assert stream._through_grpc is not None
    assert ended is not None
    assert b"secret" not in came


# -- the worker -------------------------------------------------------------------------------------------------------


async def test_deliveries_that_come_with_the_end_are_handled(server: FakeServer) -> None:
    got: list[bytes] = []
    worker = Worker(server.target, name="w")

    @worker.on("q")
    async def handle(delivery: Delivery) -> None:
        got.append(delivery.payload)

    running = asyncio.create_task(worker.run())
    await server.work.until(lambda: bool(server.work.opens))
    payloads = [str(n).encode() for n in range(16)]
    server.work.put(deliver_of("q", payloads))
    server.work.break_streams()
    await server.work.until(lambda: len(server.work.opens) == 2)
    await worker.stop()
    await running
    assert got == payloads


async def test_who_is_refused_for_good_hears_why(server: FakeServer) -> None:
    server.work.refuses = grpc.StatusCode.PERMISSION_DENIED
    worker = Worker(server.target)
    worker.on("q")(lambda delivery: None)
    with pytest.raises(TimerdError, match="not for you"):
        await worker.run()


async def test_many_messages_at_once_over_one_stream(client: Client, server: FakeServer) -> None:
    sent = [(str(n).encode() * 100, SOON) for n in range(5_000)]
    assert len(await client.schedule_many("q", sent)) == 5_000
    assert sorted(server.timers.payloads) == sorted(payload for payload, _ in sent)
    assert server.timers.sessions == 1
