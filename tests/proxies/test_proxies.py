"""The real nginx and haproxy between clients and a server, with and without TLS, and what they do to idle streams."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.certificates import Authority, Pair
from tests.process.children import Server
from tests.proxies.proxy import FORBIDDEN, FORBIDDEN_BY_GRPC, PROGRAMS, Proxy, Wanted, is_there
from timerd.client import AccessDenied, CancelOutcome, Client, Unavailable
from timerd.v1 import task_pb2, timer_service_pb2, timer_service_pb2_grpc, work_service_pb2, work_service_pb2_grpc
from timerd.worker import Delivery, Worker

pytestmark = pytest.mark.process
TASKS = 40
# More than nginx takes by default, in one message and in a stream.
LARGE = bytes(60_000)
MANY = 40
LATER = datetime(2035, 1, 1, tzinfo=UTC)
SOON = timedelta(0)


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not is_there(name) and os.environ.get("CI") == "true":
        pytest.fail(f"{name} is missing: apt-get install nginx-light haproxy")
    if not is_there(name):
        pytest.skip(f"needs {name} (apt-get install nginx-light haproxy)")
    return name


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.sign("proxy", "DNS:localhost")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """For all tests; whatever they do, it is there again at their end."""
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    running.kill()


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not fact():  # noqa: ASYNC110 - of another's state
            await asyncio.sleep(0.01)


@asynccontextmanager
async def working(target: str, **tls: Any) -> AsyncIterator[list[bytes]]:  # noqa: ANN401
    got: list[bytes] = []
    worker = Worker(target, **tls)

    @worker.on("q", concurrency=TASKS)
    async def handle(delivery: Delivery) -> None:
        got.append(delivery.payload)

    running = asyncio.create_task(worker.run())
    try:
        yield got
        await worker.stop()
        await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "TLS"])
async def test_callers_and_workers_do_through_it_what_they_do_without(
    program: str, has_tls: bool, server: Server, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    tls: dict[str, Any] = {"ca_file": authority.certificate} if has_tls else {}
    with Proxy(tmp_path, server.address, Wanted(program, pair=pair if has_tls else None)) as proxy:
        async with Client(proxy.address, **tls) as client, working(proxy.address, **tls) as got:
            tasks = await client.schedule_many("q", [(str(n), SOON) for n in range(TASKS)])
            large = await client.schedule_many("q", [(LARGE, SOON)] * MANY)
            never = await client.schedule("q", "never", at=LATER)
            assert await client.cancel(never.id) is CancelOutcome.CANCELLED
            await until(lambda: len(got) == TASKS + MANY)
            assert sorted(got) == sorted([*(str(n).encode() for n in range(TASKS)), *[LARGE] * MANY])
            assert (await client.get(tasks[0].id)).attempt == 1
            assert (await client.get(large[-1].id)).id == large[-1].id


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "TLS"])
async def test_a_client_without_the_sdk_works_through_it(
    program: str, has_tls: bool, server: Server, authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    with Proxy(tmp_path, server.address, Wanted(program, pair=pair if has_tls else None)) as proxy:
        trusted = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
        opened = grpc.aio.secure_channel(proxy.address, trusted) if has_tls else None
        async with opened or grpc.aio.insecure_channel(proxy.address) as channel:
            await _by_hand(channel)


async def _by_hand(channel: grpc.aio.Channel) -> None:
    timers = timer_service_pb2_grpc.TimerServiceStub(channel)
    work: Any = work_service_pb2_grpc.WorkServiceStub(channel).Work()
    credits = [work_service_pb2.Credit(queue="q", tasks=1)]
    await work.write(work_service_pb2.WorkRequest(open=work_service_pb2.Open(credits=credits)))
    assert (await work.read()).opened.lease_ms
    template = task_pb2.TaskTemplate(queue="q")
    asked = timer_service_pb2.ScheduleRequest(template=template, payload=b"by hand", delay=Duration())
    await timers.Schedule(asked)
    delivered = (await work.read()).deliver
    assert delivered.payloads == b"by hand"
    settle = work_service_pb2.Settle(action=work_service_pb2.SETTLE_ACTION_ACK, ack_tokens=delivered.ack_tokens)
    await work.write(work_service_pb2.WorkRequest(settle=settle))
    assert (await work.read()).HasField("confirmed")
    await work.done_writing()
    assert await work.read() is grpc.aio.EOF
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await timers.Schedule(timer_service_pb2.ScheduleRequest(template=task_pb2.TaskTemplate(queue="a b")))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, "the server's own words come through"


async def test_a_stream_that_it_ends_for_being_idle_is_opened_again(
    program: str, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker is told nothing, or hears an error: whatever it is, the next task finds it there."""
    with Proxy(tmp_path, server.address, Wanted(program, idle="1s")) as proxy:
        async with Client(proxy.address) as client, working(proxy.address) as got:
            await client.schedule("q", "first", delay=SOON)
            await until(lambda: got == [b"first"])
            await until(lambda: "connecting again" in caplog.text)
            await client.schedule("q", "second", delay=SOON)
            await until(lambda: got == [b"first", b"second"])


async def test_a_server_that_is_away_behind_it_is_waited_for(program: str, server: Server, tmp_path: Path) -> None:
    with Proxy(tmp_path, server.address, Wanted(program)) as proxy:
        async with working(proxy.address) as got:
            server.kill()
            async with Client(proxy.address, timeout=0.5) as hasty:
                with pytest.raises(Unavailable):
                    await hasty.get("A")
            async with Client(proxy.address) as client:
                waiting = asyncio.create_task(client.schedule("q", "patient", delay=SOON))
                await asyncio.to_thread(server.start)
                assert (await waiting).id
                await until(lambda: got == [b"patient"])


async def test_who_is_refused_by_it_finds_no_other_way(
    program: str, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a 403 the end of the stream may be all that gRPC shows: then the worker tries on."""
    with Proxy(tmp_path, server.address, Wanted(program, refusal=FORBIDDEN[program])) as proxy:
        async with Client(proxy.address) as client:
            assert (await client.schedule("refused", "x", delay=SOON)).id
            worker, got = Worker(proxy.address), list[bytes]()
            worker.on("refused")(lambda delivery: got.append(delivery.payload))
            running = asyncio.create_task(worker.run())
            await until(lambda: running.done() or "connecting again" in caplog.text)
            if running.done():
                with pytest.raises(AccessDenied, match="403"):
                    await running
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert got == []
            assert (await client.server_info()).in_flight == 0


async def test_a_refusal_in_the_words_of_grpc_is_heard(server: Server, tmp_path: Path) -> None:
    if not is_there("nginx"):
        pytest.skip("needs nginx (apt-get install nginx-light)")
    with Proxy(tmp_path, server.address, Wanted("nginx", refusal=FORBIDDEN_BY_GRPC)) as proxy:
        worker = Worker(proxy.address)
        worker.on("refused")(lambda _: None)
        async with asyncio.timeout(30):
            with pytest.raises(AccessDenied, match="no workers here"):
                await worker.run()


async def test_nginx_at_its_default_takes_a_mebibyte_of_a_stream(server: Server, tmp_path: Path) -> None:
    """Then it ends the stream: what is smaller goes on by the next one."""
    if not is_there("nginx"):
        pytest.skip("needs nginx (apt-get install nginx-light)")
    with Proxy(tmp_path, server.address, Wanted("nginx", most="1m")) as proxy:
        async with Client(proxy.address) as client:
            for number in range(MANY):
                await client.schedule("many", LARGE, at=LATER, key=str(number))
            assert await client.count(queue="many", start=LATER, end=LATER + timedelta(hours=1)) == MANY
