"""The server around the API: health, reflection, limits, outcomes that are not known, start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.services.api_rig import NOW_MS, EchoWork, FakeVerbs, Rig, running, trailers
from timerd.config import ServerConfig, TlsConfig
from timerd.model.errors import (
    Aborted,
    CorruptRow,
    NotStored,
    Overloaded,
    Precondition,
    StartupError,
    StoreUnavailable,
    StoreUnknown,
    Unavailable,
)
from timerd.services.api import TimerApi
from timerd.services.server import TIMER_SERVICE, WORK_SERVICE, ApiServer
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import work_service_pb2, work_service_pb2_grpc

ORDER = wire.ScheduleRequest(
    template=task_wire.TaskTemplate(queue="q"), fire_time=Timestamp(seconds=NOW_MS // 1000), request_id="r"
)
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


async def refused(call: Any) -> grpc.aio.AioRpcError:  # noqa: ANN401
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


# --- outcomes ------------------------------------------------------------------------------------------------------

NOT_STORED: dict[grpc.StatusCode, NotStored] = {
    grpc.StatusCode.FAILED_PRECONDITION: Precondition("It has fired.", "FIRED"),
    grpc.StatusCode.ABORTED: Aborted("Another move won.", "MOVE_LOST"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded("Too much.", "FULL", retry_after_ms=1_250),
    grpc.StatusCode.UNAVAILABLE: StoreUnavailable("The store is down.", "STORE_DOWN", retry_after_ms=500),
}


@pytest.mark.parametrize("code", NOT_STORED, ids=lambda code: code.name)
async def test_not_stored_is_said_with_reason_and_retry(code: grpc.StatusCode) -> None:
    error = NOT_STORED[code]
    async with running(FakeVerbs(fail=error)) as rig:
        told = await refused(rig.stub.Schedule(ORDER))
    assert (told.code(), told.details()) == (code, str(error))
    found = trailers(told)
    assert found["timerd-reason"] == error.reason
    assert found.get("timerd-retry-after-ms", "0") == str(error.retry_after_ms)
    waits = [RetryInfo.FromString(d.value) for d in Status.FromString(found["grpc-status-details-bin"]).details[1:]]
    assert [w.retry_delay.ToMilliseconds() for w in waits] == ([error.retry_after_ms] if error.retry_after_ms else [])


UNKNOWN: list[tuple[Exception, grpc.StatusCode]] = [
    (StoreUnknown("secret detail"), grpc.StatusCode.UNKNOWN),
    (CorruptRow("secret detail"), grpc.StatusCode.DATA_LOSS),
    (ZeroDivisionError("secret detail"), grpc.StatusCode.INTERNAL),
]


@pytest.mark.parametrize(("error", "code"), UNKNOWN, ids=lambda value: type(value).__name__)
async def test_unknown_outcomes_carry_no_reason_and_no_internals(
    error: Exception, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running(FakeVerbs(fail=error)) as rig:
        told = await refused(rig.stub.Schedule(ORDER))
    details = told.details() or ""
    assert told.code() is code
    assert "secret" not in details
    assert ("same request_id" in details) == (code is not grpc.StatusCode.DATA_LOSS)
    incident = details.rsplit(" ", 1)[-1].rstrip(".")
    assert f"incident {incident}: secret detail" in caplog.text
    [record] = [each for each in caplog.records if each.message.startswith("incident ")]
    assert bool(record.exc_info) is not isinstance(error, StoreUnknown), "what is foreseen is a line"
    found = trailers(told)
    assert "timerd-reason" not in found
    assert not Status.FromString(found["grpc-status-details-bin"]).details


async def test_nothing_is_taken_in_while_the_clock_is_not_trusted() -> None:
    class Untrusted(FakeVerbs):
        def now_ms(self) -> int:
            raise Unavailable("The clock jumped.", "CLOCK_NOT_TRUSTED", retry_after_ms=1_000)

    async with running(Untrusted()) as rig:
        told = await refused(rig.stub.Schedule(ORDER))
        assert told.code() is grpc.StatusCode.UNAVAILABLE
        assert rig.verbs.asked == []


async def test_the_ingest_budget_refuses_before_any_write() -> None:
    go = asyncio.Event()
    big = wire.ScheduleRequest()
    big.CopyFrom(ORDER)
    big.payload = b"x" * 60_000
    async with running(FakeVerbs(gate=go.wait), ingest_budget_bytes=100_000) as rig:
        first = asyncio.ensure_future(rig.stub.Schedule(big))
        await rig.verbs.called.wait()
        told = await refused(rig.stub.Schedule(big))
        assert told.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert int(trailers(told)["timerd-retry-after-ms"]) > 0
        assert len(rig.verbs.asked) == 1
        go.set()
        await first
        await rig.stub.Schedule(big)


async def test_a_unary_call_that_has_begun_is_carried_through() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()

    async with running(FakeVerbs(gate=gate)) as rig:
        call = rig.stub.Schedule(ORDER)
        waiting = asyncio.ensure_future(call)
        await begun.wait()
        call.cancel()
        await asyncio.wait([waiting])
        go.set()
        await rig.api.finished(10_000)
        assert len(rig.verbs.views) == 1


# --- health and reflection -----------------------------------------------------------------------------------------


async def test_health_names_the_services_and_follows_the_server() -> None:
    async with running() as rig:
        stub = health_pb2_grpc.HealthStub(rig.channel)

        async def states() -> set[int]:
            names = ("", TIMER_SERVICE, WORK_SERVICE)
            return {(await stub.Check(health_pb2.HealthCheckRequest(service=name))).status for name in names}

        assert await states() == {SERVING}
        await rig.server.set_serving(serving=False)
        assert await states() == {NOT_SERVING}
        await rig.server.set_serving(serving=True)
        assert await states() == {SERVING}
        told = await refused(stub.Check(health_pb2.HealthCheckRequest(service="nobody")))
        assert told.code() is grpc.StatusCode.NOT_FOUND


async def test_health_shows_each_part_by_its_name() -> None:
    async with running() as rig:
        stub = health_pb2_grpc.HealthStub(rig.channel)

        async def red() -> set[str]:
            names = ("", TIMER_SERVICE, WORK_SERVICE, "api", "scheduler", "store", "live")
            answers = [(name, await stub.Check(health_pb2.HealthCheckRequest(service=name))) for name in names]
            return {name for name, answer in answers if answer.status != SERVING}

        whole = {"", TIMER_SERVICE, WORK_SERVICE}
        assert await red() == set()
        for part in ("api", "scheduler", "store"):
            rig.server.board.set(part, "test", "something is wrong")
            assert await red() == {*whole, part}
            rig.server.board.clear(part, "test")
        rig.server.board.set("live", "test", "a restart would help")
        assert await red() == {"live"}
        rig.server.board.clear("live", "test")
        await rig.server.set_serving(serving=False)
        assert await red() == {*whole, "api"}


async def test_health_is_red_before_it_is_set() -> None:
    config = ServerConfig(listen="127.0.0.1:0")
    server = ApiServer(config, TimerApi(FakeVerbs(), config), EchoWork())
    address = await server.start()
    async with grpc.aio.insecure_channel(str(address)) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert reply.status == NOT_SERVING
    await server.stop(0)


def schedule_by_reflection(target: str) -> tuple[list[str], Any]:
    """As grpcurl does: nothing is known but the address and the name of the method."""
    with grpc.insecure_channel(target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        service = pool.FindServiceByName("timerd.v1.TimerService")
        method = service.FindMethodByName("Schedule")
        request: Any = GetMessageClass(method.input_type)()
        request.template.queue = "from-reflection"
        request.delay.seconds = 5
        call: Any = channel.unary_unary(
            f"/{service.full_name}/{method.name}",
            lambda message: message.SerializeToString(),
            GetMessageClass(method.output_type).FromString,
        )
        return list(database.get_services()), call(request, timeout=10)


async def test_a_call_by_reflection_alone() -> None:
    async with running() as rig:
        services, reply = await asyncio.to_thread(schedule_by_reflection, rig.target)
        (view,) = rig.verbs.views.values()
    assert {TIMER_SERVICE, WORK_SERVICE, "grpc.health.v1.Health"} <= set(services)
    assert reply.task_id == str(view.task_id)
    assert reply.fire_time.seconds == NOW_MS // 1000 + 5
    assert view.template is not None
    assert view.template.queue == "from-reflection"


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_both_versions_of_reflection_answer(version: str) -> None:
    async with running() as rig:
        call: Any = rig.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services="*"))
        names = {service.name for service in (await call.read()).list_services_response.service}
        assert TIMER_SERVICE in names
        await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=TIMER_SERVICE))
        assert (await call.read()).file_descriptor_response.file_descriptor_proto
        await call.done_writing()


# --- streams -------------------------------------------------------------------------------------------------------


def work_call(rig: Rig) -> Any:  # noqa: ANN401
    return work_service_pb2_grpc.WorkServiceStub(rig.channel).Work()


async def test_streams_of_all_services_together_are_limited() -> None:
    async with running(max_streams=2) as rig:
        session, work = rig.stub.Session(), work_call(rig)
        await session.read()
        await work.write(work_service_pb2.WorkRequest())
        await work.read()
        for call in (rig.stub.Session(), work_call(rig)):
            told = await refused_stream(call)
            assert told["timerd-reason"] == "TOO_MANY_STREAMS"
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "the server allows 2" in await call.details()
        assert (await rig.stub.Schedule(ORDER)).task_id
        await work.done_writing()
        assert await work.read() is grpc.aio.EOF
        again = rig.stub.Session()
        assert (await again.read()).WhichOneof("response") == "window"
        again.cancel()
        session.cancel()


async def refused_stream(call: Any) -> dict[str, Any]:  # noqa: ANN401
    return trailers(await refused(call.read()))


# --- start and stop ------------------------------------------------------------------------------------------------


def make(**settings: Any) -> ApiServer:  # noqa: ANN401
    config = ServerConfig(**settings)
    return ApiServer(config, TimerApi(FakeVerbs(), config), EchoWork())


async def test_a_taken_port_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartupError, match=f"Cannot listen on 127.0.0.1:{port}: see whether another program"):
            await make(listen=f"127.0.0.1:{port}").start()


async def test_two_servers_never_share_a_port() -> None:
    async with running() as rig:
        with pytest.raises(StartupError, match="perhaps another timerd"):
            await make(listen=rig.target).start()


async def test_stop_waits_for_what_is_in_hand_and_takes_nothing_new() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()

    async with running(FakeVerbs(gate=gate)) as rig:
        waiting = asyncio.ensure_future(rig.stub.Schedule(ORDER))
        await begun.wait()
        stopping = asyncio.create_task(rig.server.stop(10_000))
        go.set()
        assert (await waiting).task_id
        await stopping
        with pytest.raises(grpc.aio.AioRpcError):
            await rig.stub.Schedule(ORDER, timeout=0.5)


async def self_signed(folder: Path, name: str = "one") -> tuple[Path, Path]:
    certificate, key = folder / f"{name}-cert.pem", folder / f"{name}-key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-out", str(certificate), "-keyout", str(key)]
    made = await asyncio.to_thread(subprocess.run, [*command.split(), *names], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    return certificate, key


async def test_a_certificate_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    certificate, _ = await self_signed(tmp_path, "one")
    _, key = await self_signed(tmp_path, "two")
    with pytest.raises(StartupError, match="belong together"):
        await make(listen="127.0.0.1:0", tls=TlsConfig(certificate_file=certificate, key_file=key)).start()


async def test_tls_from_files(tmp_path: Path) -> None:
    certificate, key = await self_signed(tmp_path)
    server = make(listen="127.0.0.1:0", tls=TlsConfig(certificate_file=certificate, key_file=key))
    address = await server.start()
    credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
    async with grpc.aio.secure_channel(f"localhost:{address.port}", credentials) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert reply.status == NOT_SERVING
    await server.stop(0)
