"""A new release of tzdata: what it changed is armed anew, once, and nothing else is touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from tests.schedules.zones_rig import CHANGED, GONE, NEW, OLD, UNCHANGED, Counting, Dying, Killed, Stopped, world_of
from timerd.client import Client, NotFound, Schedule
from timerd.core.protocol import Procedure
from timerd.core.schedules.changes import Name, change, create, updated
from timerd.core.schedules.creating_many import WantedSchedule, create_many
from timerd.core.schedules.world import World
from timerd.core.schedules.zones import ZonesDiffer
from timerd.model.recurrence import Cron, Spec
from timerd.model.schedules import Definition, Policies, schedule_key
from timerd.model.schedules import Schedule as Entry
from timerd.model.task import Template
from timerd.model.zones import ZONES
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.testing import Server
from timerd.testing.async_server import CONFIG
from timerd.worker import Delivery

# Half an hour before nine in the summer of Utopia, and an hour and a half before nine without it.
START = datetime(2030, 5, 2, 6, 59, tzinfo=UTC)


async def told(server: Server) -> dict[str, Schedule]:
    return {each.id: await server.client().schedules.get(each.id) async for each in server.client().schedules.list()}


async def with_schedules(client: Client) -> None:
    """Nine in the morning: in a minute by the old data."""
    for name, zone in (("utopia", CHANGED), ("arcadia", UNCHANGED), ("utc", "UTC")):
        await client.schedules.create(name, queue="nine", cron="0 9 * * *", zone=zone)
    await client.schedules.create("far", queue="nine", cron="0 9 1 12 *", zone=CHANGED)
    await client.schedules.create("paused", queue="nine", cron="0 9 * * *", zone=CHANGED)
    await client.schedules.pause("paused")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_what_it_changed_is_armed_anew_once_and_nothing_else_is_touched(kind: str, tmp_path: Path) -> None:
    data = tmp_path if kind == "sqlite" else None
    async with Server(start=START, data=data, zones=OLD) as server:
        came: list[tuple[str, datetime]] = []
        worker = server.worker()

        @worker.on("nine")
        async def take(delivery: Delivery) -> None:
            assert delivery.occurrence is not None
            came.append((delivery.occurrence.schedule_id, server.now))

        await worker.start()
        await with_schedules(server.client())
        await server.settle()
        before = await told(server)
        assert {each.tzdata for each in before.values()} == {"2030a"}
        assert before["utopia"].upcoming[0].instant == START + timedelta(minutes=1)

        server.zones = NEW
        await server.restart()
        await server.advance(seconds=20)
        after = await told(server)
        assert {name: each.revision for name, each in after.items()} == {
            "utopia": 2, "far": 2, "arcadia": 1, "utc": 1, "paused": 2,
        }  # fmt: skip
        assert after["utopia"].upcoming[0].instant == START + timedelta(minutes=61)
        assert after["utopia"].tzdata == "2030b"
        assert {name: after[name] for name in ("arcadia", "utc")} == {name: before[name] for name in ("arcadia", "utc")}
        assert after["far"].upcoming[0].instant == datetime(2030, 12, 1, 8, tzinfo=UTC)

        await server.restart()
        await server.advance(hours=3)
        assert came == [
            ("arcadia", START + timedelta(minutes=1)),
            ("utopia", START + timedelta(minutes=61)),
            ("utc", START + timedelta(minutes=121)),
        ]
        assert {name: each.revision for name, each in (await told(server)).items()} == {
            name: each.revision for name, each in after.items()
        }


async def test_a_sweep_that_is_held_waits_for_an_operator_and_may_be_asked_for_again() -> None:
    config = replace(CONFIG, hold_tzdata=True)
    async with Server(start=START, config=config, zones=OLD) as server:
        client = server.client()
        await with_schedules(client)
        server.zones = NEW
        await server.restart()
        await server.advance(seconds=20)
        assert (await client.schedules.get("utopia")).revision == 1
        [instance] = (await client.cluster()).instances
        assert "is held" in instance.report.tzdata_advice[0]
        asked = await client.sweep_zones()
        assert (asked.tzdata, list(asked.zones)) == ("2030b", [CHANGED])
        await server.advance(seconds=20)
        assert (await client.schedules.get("utopia")).revision == 2
        await client.sweep_zones()
        await server.advance(seconds=20)
        assert {name: each.revision for name, each in (await told(server)).items()} == {
            "utopia": 3, "far": 3, "arcadia": 1, "utc": 1, "paused": 2,
        }  # fmt: skip
        assert not list((await client.cluster()).instances[0].report.tzdata_advice)


async def test_a_schedule_whose_zone_is_gone_does_not_hold_up_the_others() -> None:
    async with Server(start=START, zones=OLD) as server:
        client = server.client()
        await with_schedules(client)
        await client.schedules.create("atlantis", queue="nine", cron="0 9 * * *", zone=GONE)
        server.zones = NEW
        await server.restart()
        await server.advance(seconds=20)
        sweep = server.node.zone_sweep
        assert sweep is not None
        assert (sweep.figures.swept["failed"], sweep.figures.is_open) == (1, False)
        assert [(await client.schedules.get(each)).revision for each in ("utopia", "atlantis")] == [2, 1]


async def test_an_earlier_release_comes_back_into_force_where_there_is_no_other_instance() -> None:
    async with Server(start=START, zones=NEW) as server:
        await with_schedules(server.client())
        server.zones = OLD
        await server.restart()
        await server.advance(seconds=20)
        seen = (await told(server))["utopia"]
        assert (seen.revision, seen.tzdata) == (2, "2030a")
        assert seen.upcoming[0].instant == START + timedelta(minutes=1)


async def sweeping(server: Server, runner: Performs) -> ZoneSweep:
    """As a process that has just started."""
    store = server.node.store
    world = world_of(server, NEW, (await store.read([ZONES]))[0])
    return ZoneSweep(store, runner, world, is_single=False, holds=False, page=2)


async def test_a_sweep_that_dies_at_any_step_is_gone_on_with_and_arms_each_schedule_once() -> None:
    """Each round is a sweep of its own, which dies one step later than the one before."""
    async with Server(start=START + timedelta(hours=1), zones=NEW) as server:
        await with_schedules(server.client())
        steps, is_through = 0, False
        while not is_through:
            # What is due in a minute is recorded.
            await server.settle()
            before = await told(server)
            dying = await sweeping(server, Dying(server.node.scheduler.procedures, steps))
            try:
                await dying.ask([CHANGED])
                await dying.sweep()
                is_through = True
            except Killed:
                await (await sweeping(server, server.node.scheduler.procedures)).sweep()
            steps += 1
            after = await told(server)
            grown = {name: after[name].revision - before[name].revision for name in after}
            asked = after["utopia"].revision - before["utopia"].revision
            assert grown == {"utopia": asked, "far": asked, "arcadia": 0, "utc": 0, "paused": 0}
            assert asked in ((0, 1) if steps < 3 else (1,))
            assert {name: each.upcoming[:2] for name, each in after.items()} == {
                name: each.upcoming[:2] for name, each in before.items()
            }
            assert not (await sweeping(server, server.node.scheduler.procedures)).figures.is_open
            stored = await server.node.store.read([schedule_key("default", name) for name in after])
            assert [raw for raw in stored if raw is None or Entry.from_bytes(raw).left.slots] == []
        assert steps > 20


Result = TypeVar("Result")
# Far away, so that no tick of it comes meanwhile.
FAR = Definition(Spec((Cron("0 9 1 12 *"),), zone=CHANGED), Policies(), Template("default", "nine"))


async def by_old_data_while_the_new_ones_are_swept(
    server: Server, call: Callable[[World], Procedure[Result]], stands_before: int
) -> Result:
    """An instance of the older release, which has heard nothing, stands still with a call until the sweep is over."""
    runner = server.node.scheduler.procedures
    world = world_of(server, OLD, (await server.node.store.read([ZONES]))[0])
    stopped = Stopped(runner, stands_before)
    calling = asyncio.ensure_future(drive(call(world), stopped))
    waiting = asyncio.ensure_future(stopped.is_there.wait())
    await asyncio.wait([calling, waiting], return_when=asyncio.FIRST_COMPLETED)
    assert stopped.is_there.is_set(), "the call ended before it came to that step"
    newer = await sweeping(server, runner)
    await newer.begin()
    await newer.sweep()
    stopped.may_go_on.set()
    return await calling


async def test_a_creation_by_old_data_that_the_sweep_meets_fails_and_is_refused() -> None:
    async with Server(start=START, zones=OLD) as server:
        await with_schedules(server.client())
        name = Name("default", "late")
        with pytest.raises(ZonesDiffer, match="go by 2030b"):
            await by_old_data_while_the_new_ones_are_swept(server, lambda world: create(name, "request", FAR, world), 1)
        with pytest.raises(NotFound):
            await server.client().schedules.get("late")


async def test_an_update_into_the_zone_by_old_data_that_the_sweep_meets_fails_and_is_refused() -> None:
    def moves(world: World) -> Procedure[Entry]:
        edit = updated(lambda old: replace(old, spec=replace(old.spec, zone=CHANGED)))
        return change(Name("default", "utc"), "request", 0, edit, world)

    async with Server(start=START, zones=OLD) as server:
        await with_schedules(server.client())
        # The first one announces it.
        with pytest.raises(ZonesDiffer, match="go by 2030b"):
            await by_old_data_while_the_new_ones_are_swept(server, moves, 2)
        assert (await server.client().schedules.get("utc")).spec.zone == "UTC"


def one_of_each_zone() -> list[WantedSchedule]:
    def wanted(schedule_id: str, zone: str) -> WantedSchedule:
        definition = replace(FAR, spec=replace(FAR.spec, zone=zone))
        return WantedSchedule(Name("default", schedule_id), f"request {schedule_id}", definition)

    return [wanted("m0", "UTC"), wanted("m1", CHANGED), wanted("m2", UNCHANGED)]


async def test_of_many_the_one_whose_zone_is_left_to_others_is_refused_by_itself() -> None:
    async with Server(start=START, zones=NEW) as server:
        await with_schedules(server.client())
        runner = server.node.scheduler.procedures
        world = world_of(server, OLD, (await server.node.store.read([ZONES]))[0])
        made = await drive(create_many(one_of_each_zone(), world), runner)
        assert [each and (each.zones, each.tzdata) for each in made] == [(0, "2030a"), None, (1, "2030a")]
        name, request, definition = one_of_each_zone()[1]
        with pytest.raises(ZonesDiffer, match="go by 2030b"):
            await drive(create(name, request, definition, world), runner)
        assert {name for name in await told(server) if name.startswith("m")} == {"m0", "m2"}


async def test_zones_that_nobody_has_used_are_announced_by_one_change() -> None:
    async with Server(start=START, zones=OLD) as server:
        counting, world = Counting(server.node.scheduler.procedures), world_of(server, OLD, None)
        made = await drive(create_many(one_of_each_zone(), world), counting)
        assert [each and each.zones for each in made] == [0, 1, 1]
        assert counting.changes == 1
        again = [each._replace(name=Name("default", f"again{n}")) for n, each in enumerate(one_of_each_zone())]
        assert all(await drive(create_many(again, world), counting))
        assert counting.changes == 1


async def test_many_are_created_by_what_is_in_force_once_they_are_announced() -> None:
    """The instance has heard nothing of the later release, whose sweep is over."""
    async with Server(start=START, zones=OLD) as server:
        await with_schedules(server.client())
        runner = server.node.scheduler.procedures
        world = world_of(server, OLD, (await server.node.store.read([ZONES]))[0])
        newer = await sweeping(server, runner)
        await newer.begin()
        await newer.sweep()
        made = await drive(create_many(one_of_each_zone(), world), runner)
        assert [each and each.zones for each in made] == [0, None, 2]


async def test_many_by_old_data_that_the_sweep_meets_fail_and_each_is_created_or_refused_by_itself() -> None:
    """A name that is only announced says nothing of its zone, so the sweep meets them all."""
    async with Server(start=START, zones=OLD) as server:
        await with_schedules(server.client())
        wanted = one_of_each_zone()
        made = await by_old_data_while_the_new_ones_are_swept(server, lambda world: create_many(wanted, world), 1)
        assert made == [None, None, None]
        world = world_of(server, OLD, (await server.node.store.read([ZONES]))[0])
        for name, request, definition in (wanted[0], wanted[2]):
            entry = await drive(create(name, request, definition, world), server.node.scheduler.procedures)
            assert (entry.revision, entry.zones) == (1, 0 if definition.spec.zone == "UTC" else 2)
        assert {name for name in await told(server) if name.startswith("m")} == {"m0", "m2"}
