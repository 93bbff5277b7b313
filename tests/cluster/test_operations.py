"""What operators see of a cluster and do to it, through whichever instance they ask."""

from __future__ import annotations

from datetime import timedelta

import grpc
import grpc.aio
import pytest

from tests.cluster.crowd import QUEUE, Crowd
from timerd.client import TimerdError
from timerd.model.partition import BUCKET_MS
from timerd.peer.v1 import inspect_service_pb2
from timerd.peer.v1.inspect_service_pb2_grpc import InspectServiceStub
from timerd.sdk.values.times import datetime_of_ms
from timerd.testing import Cluster, Server
from timerd.v1 import operate_pb2 as pb


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not to be taken for an instance that does not answer."""
    monkeypatch.setattr("timerd.services.operating.colleagues.DEADLINE_S", 20.0)


async def state_of(cluster: Cluster, asked: str, name: str) -> pb.Instance:
    found = await cluster.client(asked).cluster()
    return next(each for each in found.instances if each.name == name)


async def test_each_instance_tells_the_same_of_all() -> None:
    async with Crowd() as crowd:
        await crowd.plan(60, timedelta(minutes=4))
        await crowd.cluster.advance(minutes=2)
        asked = [await crowd.cluster.client(name).cluster() for name in crowd.names]
        for name, found in zip(crowd.names, asked, strict=True):
            assert found.answered_by == name
            assert [each.name for each in found.instances] == ["a", "b", "c"]
            assert {each.state for each in found.instances} == {pb.INSTANCE_STATE_SERVING}
            for instance in found.instances:
                running = crowd.cluster.instances[instance.name]
                held = [(p.scope, p.bucket_start_ms, p.shard) for p in instance.report.partitions]
                assert held == running.holds()
                assert instance.address == running.node.address
                assert instance.incarnation == running.member.incarnation
                assert instance.report.clock_trusted
                assert instance.report.lease_trusted
                assert instance.report.workers > 0
                assert instance.heartbeat_age.ToMilliseconds() <= 2_000
                assert abs(instance.clock_difference_ms) <= instance.clock_uncertainty_ms
        tokens = [part.fencing_token for each in asked[0].instances for part in each.report.partitions]
        assert tokens
        assert min(tokens) > 0


async def test_a_dead_instance_is_shown_until_it_is_forgotten_and_one_that_left_is_gone() -> None:
    async with Cluster("a", "b", "c") as cluster:
        await cluster.kill("c")
        await cluster.advance(seconds=15)
        dead = await state_of(cluster, "a", "c")
        assert (dead.state, dead.HasField("report")) == (pb.INSTANCE_STATE_DEAD, False)
        assert dead.heartbeat_age.ToSeconds() >= 10
        await cluster.stop("b")
        found = await cluster.client("a").cluster()
        assert [each.name for each in found.instances] == ["a", "c"]


async def test_who_does_not_answer_is_shown_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.services.operating.colleagues.DEADLINE_S", 0.2)
    async with Cluster("a", "b") as cluster:
        cluster.freeze("b")
        frozen = await state_of(cluster, "a", "b")
        assert (frozen.state, frozen.HasField("report")) == (pb.INSTANCE_STATE_SERVING, False)
        answer = await cluster.client("a").drain("b")
        assert not answer.HasField("partitions_held")
        cluster.thaw("b")


async def test_a_wrong_clock_is_told_to_the_millisecond() -> None:
    async with Cluster("a", "b") as cluster:
        cluster.instances["b"].turned.clock.now_ms += 450
        instance = await state_of(cluster, "a", "b")
        assert abs(instance.clock_difference_ms - 450) <= instance.clock_uncertainty_ms


async def test_a_drained_instance_hands_all_over_takes_nothing_new_and_serves_on() -> None:
    async with Crowd(("a", "b")) as crowd:
        bucket = crowd.bucket_of("b")
        await crowd.cluster.advance(datetime_of_ms(bucket.bucket_ms) + timedelta(seconds=10) - crowd.cluster.now)
        await crowd.plan(60, timedelta(minutes=2))
        await crowd.cluster.advance(minutes=1)
        assert await crowd.cluster.holders(bucket) == ["b"]
        assert (await crowd.cluster.client("a").drain("b")).partitions_held > 0
        await crowd.cluster.advance(seconds=3)
        drained = await state_of(crowd.cluster, "a", "b")
        assert drained.state == pb.INSTANCE_STATE_LEAVING
        assert list(drained.report.partitions) == []
        assert await crowd.cluster.holders(bucket) == ["a"]
        await crowd.workers.pop("a").kill()
        await crowd.plan(60, timedelta(minutes=2), name="b")
        await crowd.cluster.advance(minutes=3)
        assert crowd.cluster.instances["b"].holds() == []
        assert (crowd.missing, crowd.twice) == (set(), [])
        assert max(crowd.lateness_s()) <= 1
        # The last ones reached its worker, although another instance holds them.
        assert [name for _, _, name in crowd.got[-60:]] == ["b"] * 60


async def test_a_drained_instance_that_starts_again_takes_its_share_again() -> None:
    async with Cluster("a", "b") as cluster:
        await cluster.client("a").drain("b")
        await cluster.advance(seconds=3)
        await cluster.stop("b")
        await cluster.add("b")
        await cluster.advance(seconds=3)
        assert cluster.instances["a"].member.live() == ("a", "b")


async def test_an_instance_may_be_asked_to_drain_itself() -> None:
    async with Cluster("a", "b") as cluster:
        await cluster.client("b").drain("b")
        await cluster.advance(seconds=3)
        assert cluster.instances["a"].member.live() == ("a",)


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("c", "NOT_FOUND", "No living instance is named 'c': the instances are a, b"),
        ("b", "FAILED_PRECONDITION", "No other instance would take over from b"),
    ],
)
async def test_who_cannot_be_drained(name: str, code: str, says: str) -> None:
    async with Cluster("a", "b") as cluster:
        await cluster.client("a").drain("a")
        await cluster.advance(seconds=3)
        with pytest.raises(TimerdError, match=says) as refused:
            await cluster.client("b").drain(name)
        assert refused.value.code == code


async def test_a_server_that_is_alone_shows_itself_and_cannot_be_drained() -> None:
    async with Server() as server:
        client = server.client()
        await client.schedule(QUEUE, b"x", delay=30)
        await server.advance(seconds=2)
        found = await client.cluster()
        assert [(each.state, each.incarnation) for each in found.instances] == [(pb.INSTANCE_STATE_SERVING, 0)]
        assert [part.waiting for part in found.instances[0].report.partitions] == [1]
        with pytest.raises(TimerdError, match="alone on its data"):
            await client.drain(found.instances[0].name)


async def test_a_bucket_is_told_shard_by_shard_while_open_and_when_finished() -> None:
    async with Crowd(("a", "b")) as crowd:
        await crowd.plan(40, timedelta(seconds=100))
        client, bucket = crowd.cluster.client("a"), crowd.cluster.now
        await crowd.cluster.advance(seconds=40)
        got = len(crowd.got)
        found = await client.partition(bucket, count_rows=True)
        assert (found.announced, found.finished) == (True, False)
        assert sum(info.rows for info in found.partitions) == 40
        assert sum(sum(info.ended.values()) for info in found.partitions) == got
        assert sum(info.held.waiting for info in found.partitions) == 40 - got
        assert {info.control.holder for info in found.partitions} == {info.placed_on for info in found.partitions}
        await crowd.cluster.advance(milliseconds=BUCKET_MS + 60_000)
        ended = await client.partition(bucket)
        assert ended.finished
        assert sum(info.control.inserted for info in ended.partitions) == 40
        assert sum(info.ended["acked"] for info in ended.partitions) == 40
        assert [info.unexplained for info in ended.partitions] == [0] * len(ended.partitions)
        assert not any(info.HasField("held") or info.HasField("rows") for info in ended.partitions)


async def test_the_lag_of_a_partition_is_that_of_its_oldest_task() -> None:
    async with Cluster("a", "b") as cluster:
        client = cluster.client("a")
        await client.schedule(QUEUE, b"x", delay=30)
        for advanced_s, lag_s in ((20, 0), (50, 40)):
            await cluster.advance(seconds=advanced_s)
            held = [part for each in (await client.cluster()).instances for part in each.report.partitions]
            assert [part.lag_ms for part in held] == [lag_s * 1_000]


async def test_one_shard_a_backlog_and_what_was_never_there() -> None:
    async with Cluster("a", "b") as cluster:
        client = cluster.client("a")
        await client.schedule(QUEUE, b"x", delay=30)
        assert [info.shard for info in (await client.partition(cluster.now, 0)).partitions] == [0]
        never = await client.partition(datetime_of_ms(0))
        assert (never.announced, list(never.partitions)) == (False, [])
        unheld = await client.partition(datetime_of_ms(0), 0)
        assert [(info.shard, info.HasField("control")) for info in unheld.partitions] == [(0, False)]
        with pytest.raises(TimerdError, match="from 1970 to 9999"):
            await client.partition(datetime_of_ms(-1))
        with pytest.raises(TimerdError, match="5000 is not a shard"):
            await client.partition(cluster.now, 5_000)
        await cluster.advance(minutes=20)
        backlog = await client.partition(cluster.now - timedelta(minutes=20), queue=QUEUE)
        assert backlog.announced
        assert (await client.cluster()).backlog_buckets == 1


async def test_buckets_that_nobody_finishes_are_counted() -> None:
    async with Cluster("a", "b") as cluster:
        client = cluster.client("a")
        await client.schedule(QUEUE, b"x", delay=30)
        first = cluster.now
        for name in ("a", "b"):
            cluster.instances[name].node.scheduler.hand_over.is_leaving = True
            cluster.instances[name].node.scheduler.machines.clear()
        await cluster.advance(minutes=25)
        found = await client.cluster()
        assert found.overdue_buckets == 1
        assert found.oldest_overdue_bucket.ToMilliseconds() == int(first.timestamp()) * 1000 // BUCKET_MS * BUCKET_MS


async def test_only_instances_of_the_cluster_may_ask_an_instance() -> None:
    async with Cluster("a", "b") as cluster:
        async with grpc.aio.insecure_channel(cluster.instances["b"].node.address) as channel:
            stub = InspectServiceStub(channel)
            for call, request in (
                (stub.Inspect, inspect_service_pb2.InspectRequest()),
                (stub.Drain, inspect_service_pb2.DrainRequest(name="b")),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request)
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert cluster.instances["a"].member.live() == ("a", "b")


async def test_the_overview_adds_up_all_instances_and_names_who_is_silent() -> None:
    async with Crowd() as crowd:
        await crowd.plan(60, timedelta(minutes=4))
        await crowd.cluster.advance(minutes=5)
        client = crowd.cluster.client("a")
        found = await client.overview()
        assert [each.name for each in found.instances] == ["a", "b", "c"]
        assert not found.silent
        (queue,) = (each for each in found.queues if each.queue == QUEUE)
        assert queue.scheduled == 60
        assert queue.sent == queue.settled["acked"] == 60
        assert queue.workers == sum(each.worker_count for each in found.instances)
        assert {each.address for each in found.instances} == {
            crowd.cluster.instances[name].node.address for name in crowd.names
        }
