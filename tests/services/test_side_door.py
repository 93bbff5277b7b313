"""The side door: the same streams as by the ordinary port, for callers on this machine that know the password."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.services.api_rig import FakeVerbs, Rig, running, trailers
from tests.services.test_api_session import batch
from timerd.client import Client, SyncClient
from timerd.http2 import PREFACE, frame
from timerd.model.errors import StoreUnavailable
from timerd.sdk import direct_stream
from timerd.sdk.connection import Connection
from timerd.sdk.one_stream import OneStream
from timerd.sdk.side_door import SESSION_PATH, Door, door_in, find_door
from timerd.services.transport import visit
from timerd.services.transport.side_door import HEADER, WHERE
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import timer_service_pb2_grpc, work_service_pb2, work_service_pb2_grpc

WORK_PATH = "/timerd.v1.WorkService/Work"
LATER = datetime(2030, 6, 1, tzinfo=UTC)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.005)


def door_of(rig: Rig) -> Door:
    address, password = rig.server._offer.says.split()
    host, _, port = address.rpartition(":")
    return Door(host, int(port), ((HEADER, password),))


def inside(rig: Rig) -> int:
    return len(rig.server._side_door.visits)


@dataclass
class Inside:
    """What grpcio, which is not ours, makes of the side door."""

    rig: Rig
    session: Callable[[], Any]
    work: Callable[[], Any]


@asynccontextmanager
async def entered(verbs: FakeVerbs | None = None, **settings: Any) -> AsyncIterator[Inside]:  # noqa: ANN401
    async with running(verbs, **settings) as rig:
        door = door_of(rig)
        async with grpc.aio.insecure_channel(f"{door.host}:{door.port}") as channel:
            timers = timer_service_pb2_grpc.TimerServiceStub(channel)
            workers = work_service_pb2_grpc.WorkServiceStub(channel)
            yield Inside(
                rig, lambda: timers.Session(metadata=door.headers), lambda: workers.Work(metadata=door.headers)
            )


# -- who finds it -----------------------------------------------------------------------------------------------------


async def test_clients_of_this_machine_go_in_and_store_their_tasks() -> None:
    async with running() as rig:
        async with Client(rig.target) as client:
            await client.schedule("mails", "x", at=LATER)
            assert inside(rig) == 1
        with SyncClient(rig.target) as blocking:
            await asyncio.to_thread(blocking.schedule, "mails", "y", at=LATER)
            assert inside(rig) >= 1
        assert len(rig.verbs.views) == 2
        await until(lambda: not inside(rig))


async def test_it_is_named_to_who_asks_and_nothing_is_begun_for_that() -> None:
    async with running() as rig:
        assert await find_door(Connection(rig.target)) == door_of(rig)
        said: set[str] = set()
        while not said:
            # Where headers and end come at once, grpcio's client may take the end in first, and has no headers then.
            call = rig.stub.Session(metadata=((HEADER, WHERE),))
            said = {str(value) for name, value in tuple(await call.initial_metadata()) if name == HEADER}
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK
        assert said == {rig.server._offer.says}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "127.0.0.1:7401",
        "10.0.0.1:7401 " + "a" * 32,
        "127.0.0.1:7401 " + "A" * 32,
        "127.0.0.1:7401 " + "a" * 31,
        "localhost:7401 " + "a" * 32,
    ],
)
def test_what_is_no_door_of_this_machine_is_not_used(said: str) -> None:
    block = b"".join(_literal(name, value) for name, value in ((":status", "200"), (HEADER, said)))
    assert door_in([block]) is None


def _literal(name: str, value: str) -> bytes:
    return b"\x10" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


async def test_who_has_another_password_does_not_get_in_and_goes_on_by_the_ordinary_port() -> None:
    """A tunnel leads to another machine's server, and its door's address is somebody else's here."""
    async with running() as here, running() as there:
        there.server._offer.says = f"{here.server._offer.says.split()[0]} {'0' * 32}"
        async with Client(there.target) as client:
            await client.schedule("mails", "x", at=LATER)
        with SyncClient(there.target) as blocking:
            await asyncio.to_thread(blocking.schedule, "mails", "y", at=LATER)
        assert (len(here.verbs.views), len(there.verbs.views)) == (0, 2)
        assert here.api.sessions == 0


async def test_where_nobody_opens_they_go_on_by_the_ordinary_port() -> None:
    async with running() as rig:
        rig.server._side_door.close()
        async with Client(rig.target) as client:
            await client.schedule("mails", "x", at=LATER)
        with SyncClient(rig.target) as blocking:
            await asyncio.to_thread(blocking.schedule, "mails", "y", at=LATER)
        assert len(rig.verbs.views) == 2
        assert not inside(rig)


@asynccontextmanager
async def silent_door(rig: Rig) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """What somebody else has at the door's address: it takes connections and says nothing."""
    came: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: came.append(writer), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    rig.server._offer.says = f"{host}:{port} {'0' * 32}"
    try:
        yield came
    finally:
        server.close()
        for writer in came:
            writer.transport.abort()


async def test_a_door_that_says_nothing_is_left_before_a_server_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_stream, "CONNECT_S", 60.0)
    async with running() as rig, silent_door(rig), Client(rig.target) as client, asyncio.timeout(20):
        await client.schedule("mails", "x", at=LATER)
    assert len(rig.verbs.views) == 1


async def test_a_blocking_caller_stays_where_it_came_in_when_the_door_says_nothing() -> None:
    async with running() as rig, silent_door(rig) as came:
        with SyncClient(rig.target) as blocking:
            for text in ("x", "y", "z"):
                await asyncio.to_thread(blocking.schedule, "mails", text, at=LATER)
        assert len(rig.verbs.views) == 3
        assert len(came) == 1


async def test_a_path_that_is_no_stream_leads_nowhere() -> None:
    async with running() as rig:
        door = door_of(rig)
        async with grpc.aio.insecure_channel(f"{door.host}:{door.port}") as channel:
            stub = timer_service_pb2_grpc.TimerServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Count(wire.CountRequest(), metadata=door.headers)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


# -- what grpcio makes of it -------------------------------------------------------------------------------------------


async def test_a_session_of_grpcio_is_answered_and_ends_well() -> None:
    async with entered() as way:
        call = way.session()
        assert (await call.read()).HasField("window")
        for sequence in range(1, 4):
            await call.write(batch(sequence))
        found = [await call.read() for _ in range(3)]
        assert sorted(reply.sequence for reply in found) == [1, 2, 3]
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_message_larger_than_window_and_frames_comes_whole() -> None:
    async with entered(payload_limit_bytes=1 << 20) as way:
        call = way.session()
        await call.read()
        await call.write(batch(1, count=12, payload=b"x" * 1_000_000))
        assert (await call.read()).schedule.stored == 12


async def test_a_refusal_says_what_it_says_by_the_ordinary_port() -> None:
    async with entered(max_streams=1) as way:
        first = way.session()
        await first.read()
        door = door_of(way.rig)
        async with grpc.aio.insecure_channel(f"{door.host}:{door.port}", [("grpc.use_local_subchannel_pool", 1)]) as ch:
            second = timer_service_pb2_grpc.TimerServiceStub(ch).Session(metadata=door.headers)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await second.read()
        by_port = way.rig.stub.Session()
        with pytest.raises(grpc.aio.AioRpcError) as ordinary:
            await by_port.read()
        for error in (refused.value, ordinary.value):
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert trailers(error)["timerd-reason"] == "TOO_MANY_STREAMS"
        assert refused.value.details() == ordinary.value.details()
        assert trailers(refused.value) == trailers(ordinary.value)


async def test_errors_of_the_store_stay_with_their_message() -> None:
    async with entered(FakeVerbs(fail=StoreUnavailable("The store is away.", "STORE_UNAVAILABLE"))) as way:
        call = way.session()
        await call.read()
        await call.write(batch(1))
        assert (await call.read()).problem.reason == "STORE_UNAVAILABLE"


async def test_a_work_stream_of_grpcio_goes_on_as_long_as_its_client() -> None:
    async with entered() as way:
        call = way.work()
        await call.write(work_service_pb2.WorkRequest())
        assert isinstance(await call.read(), work_service_pb2.WorkResponse)
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF


async def test_a_caller_that_hangs_up_ends_its_stream() -> None:
    async with entered() as way:
        call = way.session()
        await call.read()
        assert way.rig.api.sessions == 1
        call.cancel()
        await until(lambda: way.rig.api.sessions == 0 and not inside(way.rig))


async def test_a_window_that_is_full_is_gone_on_with_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.services.transport.session.MAX_UNANSWERED_REQUESTS", 2)
    go = asyncio.Event()
    async with entered(FakeVerbs(gate=go.wait)) as way:
        call = way.session()
        await call.read()
        for sequence in range(1, 7):
            await call.write(batch(sequence))
        await until(lambda: len(way.rig.api._running) == 2)
        await asyncio.sleep(0.05)
        assert len(way.rig.api._running) == 2
        go.set()
        assert {(await call.read()).sequence for _ in range(6)} == set(range(1, 7))


async def test_a_message_without_bytes_that_has_to_wait_does_not_end_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("timerd.services.transport.session.MAX_UNANSWERED_REQUESTS", 1)
    go = asyncio.Event()
    async with entered(FakeVerbs(gate=go.wait)) as way:
        call = way.session()
        await call.read()
        for request in (batch(1), wire.SessionRequest(), batch(2)):
            await call.write(request)
        await until(lambda: len(way.rig.api._running) == 1)
        await asyncio.sleep(0.05)
        go.set()
        assert [(await call.read()).sequence for _ in range(3)] == [1, 0, 2]


async def test_who_does_not_read_holds_its_own_stream_back_only() -> None:
    """What it is owed waits in the server within the bounds of its own messages."""
    async with running() as rig:
        door = door_of(rig)
        _, silent = await asyncio.open_connection(door.host, door.port)
        http = OneStream()
        silent.write(http.opening(SESSION_PATH, Connection(rig.target), door.headers))
        await until(lambda: rig.api.sessions == 1)
        async with Client(rig.target) as client:
            await client.schedule("mails", "x", at=LATER)
        assert len(rig.verbs.views) == 1
        silent.transport.abort()
        await until(lambda: not inside(rig))


async def test_who_asks_and_never_reads_an_answer_is_hung_up_on() -> None:
    pings, most_bytes = frame(6, 0, 0, bytes(8)) * 4_000, 64 << 20
    async with running() as rig:
        door = door_of(rig)
        _, writer = await asyncio.open_connection(door.host, door.port)
        writer.write(OneStream().opening(SESSION_PATH, Connection(rig.target), door.headers))
        writer.transport.pause_reading()  # type: ignore[attr-defined]

        async def ask() -> None:
            for _ in range(most_bytes // len(pings)):
                writer.write(pings)
                await writer.drain()

        with pytest.raises(ConnectionError):
            await ask()
        writer.transport.abort()
        await until(lambda: not inside(rig))


# -- its end -----------------------------------------------------------------------------------------------------------


async def test_a_stop_lets_what_is_in_hand_be_answered() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()

    async with entered(FakeVerbs(gate=gate)) as way:
        call = way.session()
        await call.read()
        await call.write(batch(1))
        await begun.wait()
        stopping = asyncio.create_task(way.rig.server.stop(10_000))
        await until(lambda: not way.rig.server._side_door._server.is_serving())  # type: ignore[union-attr]
        assert not stopping.done()
        go.set()
        assert (await call.read()).schedule.stored == 1
        assert await call.read() is grpc.aio.EOF
        await stopping


async def test_a_stop_does_not_wait_longer_than_its_grace() -> None:
    never = asyncio.Event()
    async with entered(FakeVerbs(gate=never.wait)) as way:
        call = way.session()
        await call.read()
        await call.write(batch(1))
        await until(lambda: bool(way.rig.api._running))
        async with asyncio.timeout(20):
            await way.rig.server.stop(50)
        assert not inside(way.rig)
        never.set()


async def test_whoever_connects_and_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "PATIENCE_S", 0.05)
    async with running() as rig:
        door = door_of(rig)
        reader, writer = await asyncio.open_connection(door.host, door.port)
        async with asyncio.timeout(20):
            while await reader.read(1_000):
                pass
        writer.close()
        assert not inside(rig)


async def test_a_peer_that_is_silent_is_asked_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE_S", "PING_AFTER_S", "ANSWER_WITHIN_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(visit, name, 0.3)
    async with running() as rig:
        door = door_of(rig)
        reader, writer = await asyncio.open_connection(door.host, door.port)
        writer.write(OneStream().opening(SESSION_PATH, Connection(rig.target), door.headers))
        said = b""
        async with asyncio.timeout(20):
            while more := await reader.read(1_000):
                said += more
        assert frame(6, 0, 0, bytes(8)) in said
        await until(lambda: rig.api.sessions == 0)
        writer.close()


async def test_a_client_that_answers_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PING_AFTER_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(visit, name, 0.02)
    monkeypatch.setattr(visit, "PATIENCE_S", 0.5)
    async with entered() as way:
        call = way.session()
        await call.read()
        await asyncio.sleep(0.8)
        await call.write(batch(1))
        assert (await call.read()).schedule.stored == 1


async def test_who_gets_in_hears_it_before_he_says_more() -> None:
    """A worker says nothing before that, and its stream answers nothing before it has said something."""
    async with running() as rig, asyncio.timeout(20):
        door, http = door_of(rig), OneStream()
        reader, writer = await asyncio.open_connection(door.host, door.port)
        writer.write(http.opening(WORK_PATH, Connection(rig.target), door.headers))
        while not http.header_blocks:
            http.take(await reader.read(1_000))
        assert not http.ended
        writer.close()


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n\r\n", PREFACE + b"\xff" * 64])
async def test_what_is_no_stream_of_ours_is_hung_up_on(raw: bytes) -> None:
    async with running() as rig:
        door = door_of(rig)
        reader, writer = await asyncio.open_connection(door.host, door.port)
        writer.write(raw)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1_000_000)
        writer.close()
        await until(lambda: not inside(rig))
