"""Two releases of tzdata in one cluster: instances of the older one compute nothing of a zone that changed, and lose
and double nothing."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tests.schedules.zones_rig import CHANGED, NEW, OLD, UNCHANGED
from timerd.client import BackfillState, ScheduleState
from timerd.commands.doctor_cluster import cluster_findings
from timerd.core.schedules.sweeping import Swept
from timerd.model.errors import Unavailable
from timerd.model.zones import SweptTo, Zones
from timerd.services.schedules import zone_sweep
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.testing import Cluster
from timerd.v1 import schedule_service_pb2 as wire
from timerd.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from timerd.v1.task_pb2 import TaskTemplate
from timerd.worker import Delivery

# Nine in the summer of Utopia is at seven, and at eight without it.
START = datetime(2030, 5, 2, 6, 50, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
Came = dict[str, list[datetime]]


async def listening(cluster: Cluster, name: str) -> Came:
    """The instants that come, by schedule."""
    came: Came = defaultdict(list)
    worker = cluster.worker(name)

    @worker.on("nine")
    async def take(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        came[delivery.occurrence.schedule_id].append(delivery.occurrence.instant)

    await worker.start()
    return came


async def create(cluster: Cluster, name: str, schedule_id: str, zone: str) -> None:
    """Each minute from nine to ten."""
    schedules = cluster.client(name).schedules
    await schedules.create(schedule_id, queue="nine", cron="* 9 * * *", zone=zone, catch_up="all")


def passed_on(cluster: Cluster) -> dict[str, int]:
    """Ticks, by instance."""
    ticks = {name: each.node.ticks for name, each in cluster.instances.items()}
    return {name: each.stats.ticks["passed on"] for name, each in ticks.items() if each is not None}


async def test_both_releases_in_one_cluster() -> None:
    async with Cluster("a", start=START, zones=OLD) as cluster:
        came = await listening(cluster, "a")
        await create(cluster, "a", "utopia", CHANGED)
        await create(cluster, "a", "arcadia", UNCHANGED)
        await cluster.advance(minutes=9)
        await cluster.add("b", zones=NEW)
        await cluster.advance(minutes=3)
        utopia = await cluster.client("a").schedules.get("utopia")
        assert (utopia.revision, utopia.tzdata) == (2, "2030b")
        assert (await cluster.client("b").schedules.get("arcadia")).revision == 1
        await cluster.advance(minutes=70)
        hour = [START + timedelta(minutes=10 + n) for n in range(60)]
        assert came["arcadia"] == hour
        assert came["utopia"] == [each + 60 * MINUTE for each in hour][: len(came["utopia"])]
        assert len(came["utopia"]) >= 10
        for name in ("a", "b"):
            assert (await cluster.client(name).schedules.get("utopia")).tzdata == "2030b"
        passed = passed_on(cluster)
        assert passed["a"] > 0
        assert passed["b"] == 0


async def test_an_instance_of_the_older_release_says_so_and_refuses_what_it_must_not_compute() -> None:
    async with Cluster("a", start=START, zones=OLD) as cluster:
        await create(cluster, "a", "utopia", CHANGED)
        await cluster.add("b", zones=NEW)
        await cluster.advance(seconds=20)
        behind = [each for each in cluster_findings(await cluster.client("b").cluster()) if "tzdata" in each]
        assert len(behind) == 1
        assert behind[0].startswith("a: Its time zones are of tzdata 2030a, and the schedules go by 2030b")
        async with grpc.aio.insecure_channel(cluster.instances["a"].node.address) as channel:
            call = ScheduleServiceStub(channel).PauseSchedule
            with pytest.raises(grpc.aio.AioRpcError, match="go by 2030b, which says something else") as refused:
                await call(wire.PauseScheduleRequest(schedule_id="utopia"), timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        seen = await cluster.client("a").schedules.get("utopia")
        assert (seen.state, seen.revision) == (ScheduleState.ACTIVE, 2)


async def test_of_a_batch_it_refuses_only_what_it_must_not_compute() -> None:
    async with Cluster("a", start=START, zones=OLD) as cluster:
        await create(cluster, "a", "utopia", CHANGED)
        await create(cluster, "a", "arcadia", UNCHANGED)
        await cluster.add("b", zones=NEW)
        await cluster.advance(seconds=20)
        batch = wire.CreateScheduleBatchRequest(request_id="once")
        for schedule_id, zone in (("late", CHANGED), ("early", UNCHANGED)):
            spec = wire.ScheduleSpec(parts=[wire.SpecPart(cron="* 9 * * *")], zone=zone)
            batch.schedules.add(schedule_id=schedule_id, spec=spec, template=TaskTemplate(queue="nine"))
        async with grpc.aio.insecure_channel(cluster.instances["a"].node.address) as channel:
            refused, made = (await ScheduleServiceStub(channel).CreateScheduleBatch(batch, timeout=10)).results
        assert (refused.problem.reason, refused.revision) == ("TZDATA_DIFFERS", 0)
        assert refused.problem.code == grpc.StatusCode.UNAVAILABLE.value[0]
        assert (made.schedule_id, made.revision, made.problem.reason) == ("early", 1, "")
        assert {each.id async for each in cluster.client("b").schedules.list()} == {"utopia", "arcadia", "early"}


async def test_ticks_of_a_backfill_are_passed_on_to_the_release_in_force() -> None:
    """The schedule is paused, so all that is passed on is of its backfill."""
    async with Cluster("a", start=START, zones=OLD) as cluster:
        came = await listening(cluster, "a")
        await create(cluster, "a", "utopia", CHANGED)
        await cluster.add("b", zones=NEW)
        await cluster.advance(seconds=20)
        schedules = cluster.client("b").schedules
        await schedules.pause("utopia")
        before = passed_on(cluster)
        begin = datetime(2030, 4, 27, tzinfo=UTC)
        end = begin + timedelta(days=4)
        await schedules.backfill("utopia", start=begin, end=end, backfill_id="first", rate=1)
        await cluster.advance(minutes=6)
        hours = [begin + timedelta(days=day, hours=8) for day in range(4)]
        assert came["utopia"] == [hour + minute * MINUTE for hour in hours for minute in range(60)]
        assert (await schedules.get_backfill("utopia", "first")).state is BackfillState.DONE
        after = passed_on(cluster)
        assert after["a"] > before["a"]
        assert after["b"] == before["b"] == 0


async def test_a_backfill_is_begun_by_the_release_in_force_alone() -> None:
    async with Cluster("a", start=START, zones=OLD) as cluster:
        await create(cluster, "a", "utopia", CHANGED)
        await cluster.add("b", zones=NEW)
        await cluster.advance(seconds=20)
        asked = wire.CreateBackfillRequest(schedule_id="utopia")
        asked.start_time.FromDatetime(START - timedelta(days=2))
        asked.end_time.FromDatetime(START)
        async with grpc.aio.insecure_channel(cluster.instances["a"].node.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="go by 2030b, which says something else") as refused:
                await ScheduleServiceStub(channel).CreateBackfill(asked, timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert [each async for each in cluster.client("b").schedules.list_backfills("utopia")] == []


async def test_without_an_instance_of_the_release_in_force_ticks_wait_for_one() -> None:
    async with Cluster("a", start=START, zones=OLD) as cluster:
        came = await listening(cluster, "a")
        await create(cluster, "a", "utopia", CHANGED)
        await cluster.add("b", zones=NEW)
        await cluster.advance(seconds=20)
        await cluster.kill("b")
        await cluster.advance(minutes=75)
        assert came["utopia"] == []
        await cluster.add("c", zones=NEW)
        await cluster.advance(minutes=10)
        first = START + timedelta(minutes=70)
        assert sorted(came["utopia"]) == [first + n * MINUTE for n in range(len(came["utopia"]))]
        assert len(came["utopia"]) >= 14


async def test_an_operator_brings_the_earlier_release_back_into_force() -> None:
    async with Cluster("a", "b", start=START, zones=NEW) as cluster:
        await create(cluster, "a", "utopia", CHANGED)
        await cluster.kill("b")
        await cluster.advance(seconds=20)
        await cluster.add("c", zones=OLD)
        await cluster.client("c").sweep_zones()
        await cluster.advance(seconds=20)
        utopia = await cluster.client("c").schedules.get("utopia")
        assert (utopia.revision, utopia.tzdata, utopia.upcoming[0].instant) == (2, "2030a", START + 10 * MINUTE)
        sweep = cluster.instances["a"].node.zone_sweep
        assert sweep is not None
        assert sweep.own.differing == (CHANGED,)


@pytest.mark.parametrize("armed", [0, 3])
async def test_an_instance_that_is_killed_within_the_sweep_beside_one_of_the_older_release(
    monkeypatch: pytest.MonkeyPatch, armed: int
) -> None:
    """So many are armed by then. The next instance of the later release goes on from there."""
    names = [f"utopia-{n}" for n in range(5)]
    swept, real = list[str](), ZoneSweep._one
    is_killed = is_there = False

    async def one(sweep: ZoneSweep, place: SweptTo, zones: Zones) -> Swept:
        nonlocal is_there
        if len(swept) == armed and not is_killed:
            is_there = True
            raise Unavailable("It is about to be killed.", "KILLED")
        said = await real(sweep, place, zones)
        swept.append(place.name)
        return said

    monkeypatch.setattr(zone_sweep, "TOGETHER", 1)
    monkeypatch.setattr(ZoneSweep, "_one", one)
    async with Cluster("a", start=START, zones=OLD) as cluster:
        came = await listening(cluster, "a")
        for name in names:
            await create(cluster, "a", name, CHANGED)
        await create(cluster, "a", "arcadia", UNCHANGED)
        await cluster.advance(minutes=5)
        await cluster.add("b", zones=NEW)
        for _ in range(30):
            await cluster.advance(seconds=0 if is_there else 1)
        assert is_there
        await cluster.kill("b")
        is_killed = True
        await cluster.advance(minutes=1)
        await cluster.add("c", zones=NEW)
        await cluster.advance(minutes=3)
        schedules = cluster.client("a").schedules
        found = {name: await schedules.get(name) for name in [*names, "arcadia"]}
        assert {name: (each.revision, each.tzdata) for name, each in found.items()} == {
            **dict.fromkeys(names, (2, "2030b")),
            "arcadia": (1, found["arcadia"].tzdata),
        }
        await cluster.advance(minutes=67)
        hour = [START + timedelta(minutes=10 + n) for n in range(60)]
        assert came["arcadia"] == hour
        for name in names:
            assert sorted(came[name]) == [each + 60 * MINUTE for each in hour][: len(came[name])]
            assert len(came[name]) >= 5
