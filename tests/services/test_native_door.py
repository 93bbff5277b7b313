"""The native door as callers see it: what grpcio's door says, it says too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.process.fuzz.values import Generator, Learned
from tests.services.api_rig import NOW_MS, FakeVerbs, Rig, running
from tests.services.native_rig import DOORS, Said, channels, door_of, needs_native, said, until
from timerd.model.errors import CorruptRow, Overloaded, StoreUnknown
from timerd.services.transport.decoding import MAX_MESSAGE_BYTES, MAX_WIRE_BYTES
from timerd.testing import Server
from timerd.testing.async_server import CONFIG, START
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

pytestmark = needs_native
SERVICE = wire.DESCRIPTOR.services_by_name["TimerService"]
# Without those that take as long as they were asked to.
VERBS = [each for each in SERVICE.methods if not each.server_streaming and each.name not in ("Wait", "Call")]
SCHEDULE, GET = (f"/{SERVICE.full_name}/{name}" for name in ("Schedule", "Get"))
DRAWN, SEED = 1_500, 38
ORDER = wire.ScheduleRequest(
    template=task_wire.TaskTemplate(queue="q"), fire_time=Timestamp(seconds=NOW_MS // 1000), request_id="r"
)


@pytest.fixture
async def rigs() -> AsyncIterator[list[Rig]]:
    """One behind each door, as equal as they can be made."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(running(front_door=door)) for door in DOORS]


async def both(rigs: list[Rig], path: str, raw: bytes, **options: Any) -> list[Said]:  # noqa: ANN401
    async with channels(*(rig.target for rig in rigs)) as opened:
        return [(await said(channel, path, raw, **options)).alike() for channel in opened]


def drawn(seed: int, count: int, now_ms: int) -> list[tuple[str, bytes]]:
    make = Generator(Random(seed), Learned())
    make.now_ms = lambda: now_ms  # type: ignore[method-assign]
    kinds = [make.random.choice(VERBS) for _ in range(count)]
    return [(f"/{SERVICE.full_name}/{kind.name}", make.raw(kind.input_type)) for kind in kinds]


async def test_random_messages_are_answered_alike(rigs: list[Rig]) -> None:
    codes: Counter[str] = Counter()
    here = 0
    async with channels(*(rig.target for rig in rigs)) as opened:
        for path, raw in drawn(SEED, DRAWN, NOW_MS):
            one, other = [(await said(channel, path, raw)).alike() for channel in opened]
            if one.code is grpc.StatusCode.OK:
                # Ids of calls without a request_id are another draw.
                one, other = one._replace(reply=b""), other._replace(reply=b"")
            assert other == one, (path, raw)
            codes[one.code.name] += 1
            here += path.rpartition("/")[2] in rigs[1].api.verbs()
    assert door_of(rigs[1].server).figures["calls"] == here > DRAWN / 2
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= set(codes)


async def test_schedules_that_are_stored_together_are_answered_alike() -> None:
    """The engine itself behind both: what is refused, and when what is stored fires."""
    now_ms = round(START.timestamp() * 1000)
    raws = [raw for path, raw in drawn(SEED + 1, DRAWN, now_ms) if path == SCHEDULE]
    found: list[list[Any]] = []
    for door in DOORS:
        config = replace(CONFIG, front_door=door)  # type: ignore[arg-type]
        async with Server(config=config) as server, channels(server.address) as (channel,):
            replies = await asyncio.gather(*(said(channel, SCHEDULE, raw) for raw in raws))
        found.append([_without_id(each.alike()) for each in replies])
    assert found[1] == found[0]
    assert len(raws) > DRAWN // len(VERBS) // 2
    assert {code.name for code, *_ in found[0]} >= {"OK", "INVALID_ARGUMENT"}


def _without_id(each: Said) -> tuple[Any, ...]:
    reply = wire.ScheduleResponse.FromString(each.reply)
    return each.code, each.details, each.trailers, reply.fire_time.ToMilliseconds(), reply.outcome


@pytest.mark.parametrize(
    "error",
    [Overloaded("Too much: 100 %.", "FULL", retry_after_ms=1_250), StoreUnknown("x"), CorruptRow("x"), ValueError("x")],
    ids=lambda error: type(error).__name__,
)
async def test_errors_are_told_alike(rigs: list[Rig], error: Exception) -> None:
    for rig in rigs:
        rig.verbs.fail = error
    one, other = await both(rigs, SCHEDULE, ORDER.SerializeToString())
    assert one.code is not grpc.StatusCode.OK
    assert other == one


ODD: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "no method": (f"/{SERVICE.full_name}/Nothing", b"", {}),
    "no service": ("/x/y", b"", {}),
    "a stream": (f"/{SERVICE.full_name}/Watch", b"", {}),
    "compressed": (SCHEDULE, ORDER.SerializeToString() * 100, {"compression": grpc.Compression.Gzip}),
    "no message of ours": (GET, b"\xff" * 30, {}),
    "too large for us": (SCHEDULE, bytes(MAX_MESSAGE_BYTES + 1), {}),
    "too large for gRPC": (SCHEDULE, bytes(MAX_WIRE_BYTES + 1), {}),
    "empty": (SCHEDULE, b"", {}),
    "headers": (GET, b"", {"metadata": (("x-one", "a"), ("x-two-bin", b"\x00\xff"))}),
    "many headers": (GET, b"", {"metadata": tuple((f"x-{n}", "y" * 100) for n in range(55))}),
}


@pytest.mark.parametrize("case", ODD.values(), ids=ODD.keys())
async def test_odd_calls_are_answered_alike(rigs: list[Rig], case: tuple[str, bytes, dict[str, Any]]) -> None:
    path, raw, options = case
    one, other = await both(rigs, path, raw, **options)
    assert other == one


async def test_headers_beyond_the_limit_have_the_same_status(rigs: list[Rig]) -> None:
    one, other = await both(rigs, GET, b"", metadata=tuple((f"x-{n}", "y" * 100) for n in range(200)))
    assert (one.code, other.code) == (grpc.StatusCode.RESOURCE_EXHAUSTED,) * 2
    assert other.details == "The headers of the call are longer than 16 KiB."


async def test_unary_calls_go_one_way_and_all_else_the_other(rigs: list[Rig]) -> None:
    native = rigs[1]

    def figures() -> dict[str, int]:
        return {name: door_of(native.server).figures[name] for name in ("calls", "relayed")}

    await native.stub.Schedule(ORDER)
    assert figures() == {"calls": 1, "relayed": 0}
    session = native.stub.Session()
    assert (await session.read()).WhichOneof("response") == "window"
    await session.write(wire.SessionRequest(sequence=5))
    assert (await session.read()).problem.field == "request"
    await session.done_writing()
    assert await session.read() is grpc.aio.EOF
    reply = await health_pb2_grpc.HealthStub(native.channel).Check(health_pb2.HealthCheckRequest())
    assert reply.status == health_pb2.HealthCheckResponse.SERVING
    assert figures() == {"calls": 1, "relayed": 2}


async def test_a_caller_that_hangs_up_stops_nothing_and_is_forgotten() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def gate() -> None:
        begun.set()
        await go.wait()

    async with running(FakeVerbs(gate=gate), front_door="native") as rig:
        call = rig.stub.Schedule(ORDER)
        await begun.wait()
        call.cancel()
        await until(lambda: door_of(rig.server).figures["gone"] == 1)
        assert door_of(rig.server).figures["in_hand"] == 0
        go.set()
        await until(lambda: bool(rig.verbs.scheduled))
        # The connection goes on.
        assert (await rig.stub.Schedule(ORDER)).task_id


async def test_a_time_that_is_over_ends_the_call() -> None:
    async with running(FakeVerbs(gate=asyncio.Event().wait), front_door="native") as rig:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await rig.stub.Schedule(ORDER, timeout=0.05)
        assert told.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not door_of(rig.server).figures["in_hand"])


async def test_messages_in_many_frames_and_large_replies_pass(rigs: list[Rig]) -> None:
    columns = wire.TaskColumns(fire_at_ms=[NOW_MS] * 8_000, payload_lengths=[1_000], payloads=bytes(8_000_000))
    batch = wire.ScheduleBatchRequest(template=ORDER.template, columns=columns, request_id="r")
    one, other = [await rig.stub.ScheduleBatch(batch) for rig in rigs]
    assert other == one
    assert one.stored == 8_000
