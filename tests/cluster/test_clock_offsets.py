"""An instance whose clock is wrong and steady holds nothing, says so, and comes back when it is right; the others go on
as if it had left."""

from __future__ import annotations

from datetime import timedelta

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.cluster.crowd import Crowd
from timerd.core.cluster.engine_clock import STABLE_MS
from timerd.model.errors import Unavailable
from timerd.services.health.health_board import SCHEDULER
from timerd.testing.cluster import Running

HOUR_MS = 3_600_000
STABLE = timedelta(milliseconds=STABLE_MS)
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def said(running: Running) -> str:
    return " ".join(running.node.server.board.wrong(SCHEDULER).values())


async def until_its_bucket(crowd: Crowd, name: str) -> None:
    start = crowd.bucket_start_of(name) + timedelta(seconds=10)
    await crowd.cluster.advance(max(timedelta(), start - crowd.cluster.now))


async def health(running: Running) -> int:
    async with grpc.aio.insecure_channel(running.node.address) as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        return int(answer.status)


@pytest.mark.parametrize(("offset_ms", "words"), [(HOUR_MS, "ahead of"), (-HOUR_MS, "behind"), (400, "ahead of")])
async def test_who_starts_with_a_wrong_clock_gets_nothing(offset_ms: int, words: str) -> None:
    async with Crowd(("a", "b")) as crowd:
        wrong = await crowd.cluster.add("c", offset_ms)
        await crowd.plan(40, timedelta(seconds=60))
        await crowd.cluster.advance(seconds=75)
        assert f"is {abs(offset_ms)} ms {words} those of the majority" in said(wrong)
        assert not wrong.holds()
        assert await health(wrong) == NOT_SERVING
        with pytest.raises(Unavailable, match="majority of the instances"):
            wrong.node.time.accepting_ms()
        for name in crowd.names:
            assert not said(crowd.cluster.instances[name])
            assert await health(crowd.cluster.instances[name]) == SERVING
        assert not crowd.missing
        assert not crowd.twice
        assert min(crowd.lateness_s()) == max(crowd.lateness_s()) == 0


async def test_a_clock_that_was_set_wrong_is_not_believed_however_steady_it_is() -> None:
    async with Crowd() as crowd:
        await crowd.plan(60, timedelta(minutes=8))
        c = crowd.cluster.instances["c"]
        await until_its_bucket(crowd, "c")
        assert c.holds()
        crowd.cluster.step_clock("c", HOUR_MS)
        await crowd.cluster.advance(STABLE + timedelta(seconds=15))
        assert "is 3600000 ms ahead of" in said(c)
        assert not c.holds()
        await crowd.cluster.advance(minutes=9)
        assert not crowd.missing
        assert min(crowd.lateness_s()) >= 0


async def test_who_is_right_again_takes_its_share() -> None:
    async with Crowd(("a", "b")) as crowd:
        c = await crowd.cluster.add("c", -HOUR_MS)
        assert said(c)
        crowd.cluster.step_clock("c", HOUR_MS)
        await crowd.cluster.advance(STABLE + timedelta(seconds=15))
        assert not said(c)
        assert await health(c) == SERVING
        assert crowd.cluster.instances["a"].member.live() == ("a", "b", "c")
        crowd.names = ("a", "b", "c")
        await crowd.plan(60, timedelta(minutes=6))
        await until_its_bucket(crowd, "c")
        assert c.holds()
        await crowd.cluster.advance(minutes=6)
        assert not crowd.missing
        assert not crowd.twice
        assert max(crowd.lateness_s()) <= 1


async def test_of_two_neither_is_stopped_since_neither_can_know() -> None:
    async with Crowd(("a",)) as crowd:
        wrong = await crowd.cluster.add("b", HOUR_MS)
        await crowd.cluster.advance(seconds=30)
        for running in (wrong, crowd.cluster.instances["a"]):
            assert not said(running)
            assert running.node.time.trusted
            assert await health(running) == SERVING
        assert await crowd.cluster.add("c")
        await crowd.cluster.advance(seconds=15)
        assert "3600000 ms ahead of" in said(wrong)
        assert not said(crowd.cluster.instances["a"])
