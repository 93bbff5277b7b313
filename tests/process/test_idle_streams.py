"""Ten thousand clients that open streams and say nothing: a limit holds them, and everybody else is served."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.fuzz.run import resident_bytes
from timerd.client import Client
from timerd.v1 import task_pb2, timer_service_pb2_grpc, work_service_pb2_grpc
from timerd.v1 import timer_service_pb2 as pb

pytestmark = pytest.mark.process
STREAMS, ALLOWED, CONNECTIONS = 10_000, 500, 20
MOST_GROWTH_MIB = 200
REFUSED = "RESOURCE_EXHAUSTED TOO_MANY_STREAMS"


async def open_streams(channel: grpc.aio.Channel, count: int, open_: list[Any]) -> Counter[str]:
    """How they were answered; those that stay open go to `open_`."""
    answers: Counter[str] = Counter()
    timers, workers = timer_service_pb2_grpc.TimerServiceStub(channel), work_service_pb2_grpc.WorkServiceStub(channel)
    for number in range(count):
        call: Any = timers.Session() if number % 10 else workers.Work()
        if number % 10 == 0:
            # Its first word is the client's: it stays silent.
            open_.append(call)
            answers["silent"] += 1
            continue
        try:
            await call.read()
            open_.append(call)
            answers["OK"] += 1
        except grpc.aio.AioRpcError as error:
            advised = "close those that idle" in str(error.details())
            reason = dict(tuple(error.trailing_metadata() or ())).get("timerd-reason", "")
            answers[f"{error.code().name} {reason if advised else error.details()}"] += 1
    return answers


async def test_idle_streams_are_bounded_and_the_others_are_served(tmp_path: Path, children: Children) -> None:
    server = children.own(Server(tmp_path, "--max-streams", str(ALLOWED)))
    server.start()
    before_bytes = resident_bytes(server.pid)
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(server.address, options=options) for _ in range(CONNECTIONS)]
    held: list[Any] = []
    found = await asyncio.gather(*(open_streams(c, STREAMS // CONNECTIONS, held) for c in channels))
    answers = sum(found, Counter[str]())
    assert answers[REFUSED] >= STREAMS - STREAMS // 10 - ALLOWED
    assert answers["OK"] <= ALLOWED
    assert set(answers) == {"OK", "silent", REFUSED}
    assert resident_bytes(server.pid) - before_bytes < MOST_GROWTH_MIB << 20
    order = pb.ScheduleRequest(template=task_pb2.TaskTemplate(queue="q"), delay=Duration(seconds=60))
    assert (await timer_service_pb2_grpc.TimerServiceStub(channels[0]).Schedule(order)).task_id
    for call in held:
        call.cancel()
    for channel in channels:
        await channel.close()
    async with Client(server.address) as client:
        assert (await client.schedule("q", b"x", delay=60)).id
    assert server.errors() == ""
