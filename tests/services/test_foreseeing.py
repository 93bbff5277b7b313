"""What KEDA is told, over its own contract: how much work is coming, before it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest

from timerd.peer.keda.externalscaler_pb2 import GetMetricsRequest, ScaledObjectRef
from timerd.peer.keda.externalscaler_pb2_grpc import ExternalScalerStub
from timerd.testing import Server
from timerd.testing.async_server import START

HOT_AFTER = timedelta(minutes=30)
TASKS = 1_200
TRIGGER = {"queue": "mails", "tasksPerSecond": "5", "leadSeconds": "120", "holdSeconds": "60"}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """With a hot minute half an hour ahead: 20 tasks a second."""
    async with Server() as server:
        due = server.now + HOT_AFTER
        await server.client().schedule_many("mails", [(b"", due + timedelta(milliseconds=n)) for n in range(TASKS)])
        await server.node.engine.flush_estimates()
        yield server


@pytest.fixture
async def scaler(server: Server) -> AsyncIterator[ExternalScalerStub]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield ExternalScalerStub(channel)


def trigger(**other: str) -> ScaledObjectRef:
    return ScaledObjectRef(name="mailers", namespace="shop", scalerMetadata={**TRIGGER, **other})


async def demand(scaler: ExternalScalerStub, **other: str) -> float:
    answer: Any = await scaler.GetMetrics(GetMetricsRequest(scaledObjectRef=trigger(**other)))
    [value] = answer.metricValues
    assert value.metricValue == value.metricValueFloat
    return float(value.metricValueFloat)


async def test_replicas_are_asked_for_before_the_hot_minute_and_until_after_it(
    server: Server, scaler: ExternalScalerStub
) -> None:
    seen = {}
    for minutes in (0, 27, 28, 30, 31, 32):
        await server.advance(seconds=60 * minutes - passed_s(server))
        seen[minutes] = await demand(scaler)
    assert seen == {0: 0, 27: 0, 28: 20, 30: 20, 31: 20, 32: 0}


def passed_s(server: Server) -> float:
    return (server.now - START).total_seconds()


async def test_the_target_is_what_one_replica_does(scaler: ExternalScalerStub) -> None:
    [spec] = (await scaler.GetMetricSpec(trigger(tasksPerSecond="2.5"))).metricSpecs
    assert (spec.metricName, spec.targetSizeFloat, spec.targetSize) == ("timerd-tasks-per-second", 2.5, 2)


async def test_without_work_in_sight_there_need_be_no_replica(server: Server, scaler: ExternalScalerStub) -> None:
    assert not (await scaler.IsActive(trigger())).result
    await server.advance(minutes=29)
    assert (await scaler.IsActive(trigger())).result
    assert not (await scaler.IsActive(trigger(queue="others"))).result
    assert (await scaler.IsActive(trigger(queue=""))).result
    assert not (await scaler.IsActive(trigger(namespace="another"))).result


async def test_a_stream_tells_at_once_where_things_stand(server: Server, scaler: ExternalScalerStub) -> None:
    await server.advance(minutes=29)
    stream = scaler.StreamIsActive(trigger())
    assert (await stream.read()).result
    stream.cancel()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tasksPerSecond": "0"}, "tasksPerSecond is '0': write a number from 0.001 to 1,000,000,000."),
        ({"tasksPerSecond": "1e300"}, "tasksPerSecond is '1e300'"),
        ({"tasksPerSecond": ""}, "tasksPerSecond is ''"),
        ({"leadSeconds": "1e18"}, "leadSeconds is '1e18': write a number from 0 to 604,800."),
        ({"holdSeconds": "-1"}, "holdSeconds is '-1'"),
        ({"tasksPerSecond": "many"}, "tasksPerSecond is 'many'"),
        ({"leadSeconds": "nan"}, "leadSeconds is 'nan'"),
        ({"taskPerSecond": "5"}, "'taskPerSecond' is no setting of timerd's scaler: allowed are queue, namespace"),
    ],
)
async def test_what_is_wrong_in_a_trigger_is_a_sentence(
    scaler: ExternalScalerStub, wrong: dict[str, str], sentence: str
) -> None:
    for call in (scaler.GetMetricSpec, scaler.IsActive):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(trigger(**wrong))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert sentence in str(refused.value.details())


async def test_a_trigger_without_its_target_is_told_so(scaler: ExternalScalerStub) -> None:
    for call in (scaler.GetMetricSpec(ScaledObjectRef()), scaler.GetMetrics(GetMetricsRequest())):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "tasksPerSecond is missing" in str(refused.value.details())


async def test_what_keda_itself_writes_into_a_trigger_is_left_alone(scaler: ExternalScalerStub) -> None:
    assert await demand(scaler, scalerAddress="timerd:7400") == 0
