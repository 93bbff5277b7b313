"""A role that is taken away ends the streams that are open by it, and those only."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.certificates import Authority, Pair
from tests.services.access_rig import proof, write
from timerd.client import TimerdError
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.peer.keda import externalscaler_pb2 as keda
from timerd.services.transport import open_streams
from timerd.services.transport.session import Session
from timerd.testing import Server
from timerd.v1 import task_pb2 as task_pb
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import work_service_pb2 as work_pb
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub
from timerd.v1.work_service_pb2_grpc import WorkServiceStub
from timerd.worker import Delivery, Worker

PATIENCE_S = 20
# More than a connection takes that nobody reads from.
TASKS, PAYLOAD_BYTES = 200, 64_000
MAILS, OTHERS, OPS = (
    f"mails schedule,work {proof('t-mails')}\n",
    f"others schedule,work {proof('t-others')}\n",
    f"ops operate {proof('t-ops')}\n",
)
ORDERS = "orders schedule cert:orders\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    return authority.sign("server", "DNS:localhost", "IP:127.0.0.1")


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals"
    path.write_text(MAILS + OTHERS + OPS + ORDERS)
    return path


@pytest.fixture
async def server(authority: Authority, server_pair: Pair, principals: Path) -> AsyncIterator[Server]:
    tls = TlsConfig(
        certificate_file=server_pair.certificate, key_file=server_pair.key, client_ca_file=authority.certificate
    )
    auth = AuthConfig(principals_file=principals)
    async with Server(config=ServerConfig(listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=auth)) as server:
        yield server


@pytest.fixture
async def channel(server: Server, authority: Authority) -> AsyncIterator[grpc.aio.Channel]:
    """Shows the certificate of `orders`; tokens go with each call."""
    pair = authority.sign("orders")
    parts = [file.read_bytes() for file in (authority.certificate, pair.key, pair.certificate)]
    async with grpc.aio.secure_channel(server.address, grpc.ssl_channel_credentials(*parts)) as channel:
        yield channel


@pytest.fixture
def make_worker(server: Server, authority: Authority) -> Callable[[dict[str, Any]], Worker]:
    pair = authority.sign("unknown")
    files: dict[str, Any] = {"ca_file": authority.certificate, "cert_file": pair.certificate, "key_file": pair.key}
    return lambda token: Worker(server.address, **token, **files)


def shown(token: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {token}"),)


async def end_of(call: Any) -> tuple[grpc.StatusCode, str]:  # noqa: ANN401 - a call of whatever kind
    """The code and the sentence."""

    async def read_on() -> None:
        while await call.read() is not grpc.aio.EOF:
            pass

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await asyncio.wait_for(read_on(), PATIENCE_S)
    return ended.value.code(), str(ended.value.details())


async def opened_work(channel: grpc.aio.Channel, token: str) -> Any:  # noqa: ANN401 - gRPC has no types
    call = WorkServiceStub(channel).Work(metadata=shown(token))
    credits = [work_pb.Credit(queue="mails", tasks=TASKS)]
    await call.write(work_pb.WorkRequest(open=work_pb.Open(worker="w", credits=credits)))
    assert (await call.read()).WhichOneof("response") == "opened"
    return call


async def schedule(server: Server, channel: grpc.aio.Channel, payload: bytes = b"x") -> None:
    """A task that is due, by somebody whose roles stay."""
    template = task_pb.TaskTemplate(queue="mails")
    columns = pb.TaskColumns(
        fire_at_ms=[int(server.now.timestamp() * 1000)], payload_lengths=[len(payload)], payloads=payload
    )
    asked = pb.ScheduleBatchRequest(request_id=secrets.token_hex(8), template=template, columns=columns)
    assert (await TimerServiceStub(channel).ScheduleBatch(asked, metadata=shown("t-others"))).stored == 1


async def delivered(call: Any) -> bytes:  # noqa: ANN401
    return bytes((await asyncio.wait_for(call.read(), PATIENCE_S)).deliver.delivery_ids)


@pytest.mark.parametrize(
    ("left", "code", "says"),
    [
        (OTHERS, "UNAUTHENTICATED", "does not know this caller"),
        (MAILS.replace(",work", ""), "PERMISSION_DENIED", "mails may not call Work"),
        (MAILS.replace("work", "work@shop"), "PERMISSION_DENIED", "may not call Work in the namespace 'default'"),
        (MAILS.replace("work", "work@default/b*"), "PERMISSION_DENIED", "in the namespace 'default', queue 'mails'"),
    ],
    ids=["token", "role", "namespace", "queue"],
)
async def test_a_worker_that_may_no_longer_hears_why(
    server: Server,
    channel: grpc.aio.Channel,
    make_worker: Callable[[dict[str, Any]], Worker],
    principals: Path,
    left: str,
    code: str,
    says: str,
) -> None:
    """Nobody calls meanwhile: the server looks by itself."""
    worker, came = make_worker({"token": "t-mails"}), asyncio.Event()

    @worker.on("mails")
    async def handle(_: Delivery) -> None:
        came.set()

    running = asyncio.create_task(worker.run())
    await schedule(server, channel)
    await came.wait()
    write(principals, left)
    with pytest.raises(TimerdError, match=says) as ended:
        await asyncio.wait_for(running, PATIENCE_S)
    assert ended.value.code == code


async def test_a_worker_whose_token_is_renewed_works_on(
    server: Server,
    channel: grpc.aio.Channel,
    make_worker: Callable[[dict[str, Any]], Worker],
    principals: Path,
    tmp_path: Path,
) -> None:
    file, came, seen = tmp_path / "token", asyncio.Semaphore(0), []
    write(file, "t-mails\n")
    worker = make_worker({"token_file": file})

    @worker.on("mails")
    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.task_id)
        came.release()

    running = asyncio.create_task(worker.run())
    await schedule(server, channel)
    await came.acquire()
    write(file, "t-new\n")
    write(principals, f"mails work {proof('t-new')}\n{OTHERS}")
    # Whoever calls makes the server look: what is on its way by the old stream comes by the new one.
    await schedule(server, channel)
    await server.advance(seconds=2)
    await asyncio.wait_for(came.acquire(), PATIENCE_S)
    await worker.stop()
    await running
    assert len(set(seen)) == 2


async def test_what_it_had_in_hand_goes_to_another_and_that_one_stays(
    server: Server, channel: grpc.aio.Channel, principals: Path
) -> None:
    mails = await opened_work(channel, "t-mails")
    await schedule(server, channel)
    first = await delivered(mails)
    others = await opened_work(channel, "t-others")
    write(principals, OTHERS)
    code, says = await end_of(mails)
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert says.startswith("Who may do what has changed since this stream began. This server asks who calls")
    advancing = asyncio.create_task(server.advance(seconds=2))
    assert await delivered(others) == first
    advancing.cancel()


async def test_a_session_answers_what_it_has_read(
    server: Server, channel: grpc.aio.Channel, principals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, gate, began, stopped = server.node.server.api, asyncio.Event(), asyncio.Event(), asyncio.Event()
    answer, stop = api.answer, Session.stop

    async def slow(received: Any) -> pb.SessionResponse:  # noqa: ANN401 - handed on
        began.set()
        await gate.wait()
        return await answer(received)

    def stop_and_tell(session: Session) -> None:
        stop(session)
        stopped.set()

    monkeypatch.setattr(api, "answer", slow)
    monkeypatch.setattr(Session, "stop", stop_and_tell)
    call = TimerServiceStub(channel).Session(metadata=shown("t-mails"))
    assert (await call.read()).HasField("window")
    await call.write(pb.SessionRequest(sequence=7, cancel=pb.CancelBatchRequest(task_ids=["x"])))
    await began.wait()
    write(principals, OTHERS)
    await stopped.wait()
    gate.set()
    assert (await asyncio.wait_for(call.read(), PATIENCE_S)).sequence == 7
    code, says = await end_of(call)
    assert (code, "does not know this caller" in says) == (grpc.StatusCode.UNAUTHENTICATED, True)


async def test_a_session_that_is_stuck_is_cut(
    server: Server, channel: grpc.aio.Channel, principals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_streams, "ENDED_S", 0.01)

    async def never(_: object) -> pb.SessionResponse:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(server.node.server.api, "answer", never)
    call = TimerServiceStub(channel).Session(metadata=shown("t-mails"))
    await call.write(pb.SessionRequest(sequence=7, cancel=pb.CancelBatchRequest(task_ids=["x"])))
    assert (await call.read()).HasField("window")
    write(principals, OTHERS)
    assert (await end_of(call))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_a_name_in_a_certificate_that_has_no_role_any_more(channel: grpc.aio.Channel, principals: Path) -> None:
    call = TimerServiceStub(channel).Session()
    assert (await call.read()).HasField("window")
    write(principals, OTHERS)
    assert (await end_of(call))[0] is grpc.StatusCode.UNAUTHENTICATED


async def test_an_autoscaler_that_watches_hears_it_too(channel: grpc.aio.Channel, principals: Path) -> None:
    method = channel.unary_stream(
        "/externalscaler.ExternalScaler/StreamIsActive",
        keda.ScaledObjectRef.SerializeToString,
        keda.IsActiveResponse.FromString,
    )
    asked = {"queue": "mails", "tasksPerSecond": "10"}
    call: Any = method(keda.ScaledObjectRef(scalerMetadata=asked), metadata=shown("t-ops"))
    assert (await call.read()).result is False
    write(principals, OPS.replace("operate", "schedule"))
    code, says = await end_of(call)
    assert (code, "ops may not call StreamIsActive" in says) == (grpc.StatusCode.PERMISSION_DENIED, True)


async def test_a_spoilt_file_and_one_that_leaves_the_role_end_nothing(
    server: Server, channel: grpc.aio.Channel, principals: Path
) -> None:
    mails = await opened_work(channel, "t-mails")
    for text in ("spoilt\n", MAILS.replace("mails", "letters") + OTHERS):
        write(principals, text)
        # Whoever calls makes the server look.
        await schedule(server, channel)
        assert await delivered(mails)


async def test_a_worker_that_does_not_read_keeps_nothing(
    server: Server, channel: grpc.aio.Channel, principals: Path
) -> None:
    """Also what it was being sent is with another then; it hears why when it reads."""
    stuck = await opened_work(channel, "t-mails")
    for _ in range(TASKS):
        await schedule(server, channel, b"x" * PAYLOAD_BYTES)
    others, came = await opened_work(channel, "t-others"), 0
    write(principals, OTHERS)
    advancing = asyncio.create_task(server.advance(seconds=2))
    while came < TASKS:
        came += await acked(others)
    await advancing
    assert server.node.server._streams.open == 1
    assert (await end_of(stuck))[0] is grpc.StatusCode.UNAUTHENTICATED


async def acked(call: Any) -> int:  # noqa: ANN401
    """How many tasks the next message brought; they are acknowledged."""
    response = await asyncio.wait_for(call.read(), PATIENCE_S)
    tokens = response.deliver.ack_tokens
    if tokens:
        done = work_pb.Settle(action=work_pb.SETTLE_ACTION_ACK, ack_tokens=tokens)
        credit = work_pb.Credit(queue="mails", tasks=len(response.deliver.fire_at_ms))
        await call.write(work_pb.WorkRequest(settle=done))
        await call.write(work_pb.WorkRequest(credit=credit))
    return len(response.deliver.fire_at_ms)


async def test_who_receives_of_several_queues_may_work_on_each(
    channel: grpc.aio.Channel, principals: Path, server: Server
) -> None:
    write(principals, f"pdf work@default/pdf {proof('t-pdf')}\n" + OTHERS)
    receive = WorkServiceStub(channel).Receive
    asked = work_pb.ReceiveRequest(queues=["pdf", "excel"])
    assert (await receive(asked, metadata=shown("t-others"))).tasks == []
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await receive(asked, metadata=shown("t-pdf"))
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    asked = work_pb.ReceiveRequest(queues=["pdf"])
    assert (await receive(asked, metadata=shown("t-pdf"))).tasks == []
