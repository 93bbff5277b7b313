"""The canary: a task that an instance gives itself says whether it does its work, and where it gets stuck if not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from benchmarks.store_calls import Counting
from timerd.adapters.memory import MemoryStore
from timerd.core.taken import CANARY
from timerd.model.errors import Invalid
from timerd.ports import Store
from timerd.services.calls.fields import namespace_of
from timerd.services.health.canary import Canary
from timerd.services.health.health_board import API, LIVE, PARTS, SCHEDULER, STORE, HealthBoard
from timerd.services.readiness import ReadinessProbe
from timerd.testing import Cluster, Server
from timerd.testing.async_server import CONFIG

WITH_CANARY = replace(CONFIG, canary_ms=5_000)
# So many that each of three instances gets some.
OF_MANY = replace(WITH_CANARY, shards=12)
# Of real time, where it has to run out.
SHORT_S = 0.2


def canary_of(probe: ReadinessProbe | None) -> Canary:
    assert probe is not None
    assert probe.canary is not None
    return probe.canary


async def fly(time: Server | Cluster, *canaries: Canary) -> list[str]:
    """One of each, while time goes on."""
    flying = [asyncio.create_task(canary.once()) for canary in canaries]
    while not all(each.done() for each in flying):
        await asyncio.wait(flying, timeout=0.005)
        await time.advance(milliseconds=500)
    return [each.result() for each in flying]


def red(board: HealthBoard) -> set[str]:
    return {part for part in (*PARTS, LIVE) if not board.is_serving(part)}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(config=WITH_CANARY) as running:
        yield running


@pytest.fixture
def canary(server: Server) -> Canary:
    return canary_of(server.node.probe)


@pytest.fixture
def board(server: Server) -> HealthBoard:
    return server.node.server.board


class Held:
    """A call of the store that does not come back while it is held."""

    def __init__(self, call: Callable[..., Awaitable[object]]) -> None:
        self.calls = 0
        self.go = asyncio.Event()
        self._call = call

    async def __call__(self, *given: object, **named: object) -> object:
        self.calls += 1
        await self.go.wait()
        return await self._call(*given, **named)


# --- what it is ----------------------------------------------------------------------------------------------------


async def test_it_goes_the_whole_way_and_is_in_the_ledger(server: Server, canary: Canary, board: HealthBoard) -> None:
    for _ in range(3):
        assert await fly(server, canary) == ["fired"]
    assert sum(canary.round_trip_ms.counts) == sum(canary.worker.lateness_ms.counts) == 3
    assert red(board) == set()
    await server.advance(minutes=20)
    ledger = (await server.node.engine.facts()).ledger
    assert (ledger["inserted"], ledger["acked"], ledger["unexplained"]) == (3, 3, 0)


async def test_callers_see_nothing_of_it(server: Server, canary: Canary) -> None:
    client = server.client()
    await client.schedule("mails", b"hello", delay=3600)
    await fly(server, canary)
    start = server.now - timedelta(hours=12)
    listed = [task.queue async for task in client.list(start=start, end=start + timedelta(days=1))]
    assert listed == ["mails"]
    assert await client.count() == 1
    assert sum((await client.server_info()).lateness_counts) == 0
    assert server.node.delivery.workers == 0
    assert list(server.node.engine.scheduled) == [("default", "mails")]


def test_no_caller_can_name_it() -> None:
    with pytest.raises(Invalid, match="is not allowed"):
        namespace_of(CANARY.namespace)


async def test_what_a_dead_instance_left_expires(server: Server, canary: Canary) -> None:
    canary.settings = canary.settings._replace(timeout_s=SHORT_S)
    assert await canary.once() == "not_delivered", "for no time passed"
    await server.advance(minutes=20)
    ledger = (await server.node.engine.facts()).ledger
    assert ledger["inserted"] == ledger["acked"] + ledger["expired"] == 1


async def test_without_one_there_is_none() -> None:
    async with Server() as server:
        assert server.node.probe is not None
        assert server.node.probe.canary is None


# --- what turns red ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "outcome"), [("append", "not_stored"), ("settle", "not_acked")])
async def test_a_store_that_is_stuck_turns_the_store_red(
    server: Server, canary: Canary, board: HealthBoard, monkeypatch: pytest.MonkeyPatch, call: str, outcome: str
) -> None:
    canary.settings = canary.settings._replace(timeout_s=SHORT_S)
    held = Held(getattr(server.node.store, call))
    monkeypatch.setattr(server.node.store, call, held)
    flying = asyncio.create_task(canary.once())
    while not flying.done():
        await asyncio.wait({flying}, timeout=0.01)
        server.node.time.exact_ms()
        server._clock.now_ms += 100
        server.node.delivery.wake()
    assert flying.result() == outcome
    assert red(board) == {STORE}
    assert "within 0.2 s" in board.wrong(STORE)["canary"]
    if call == "append":
        assert await canary.once() == outcome
        assert held.calls == 1, "calls that do not come back do not pile up"
    held.go.set()
    monkeypatch.undo()
    canary.settings = canary.settings._replace(timeout_s=5.0)
    assert await fly(server, canary) == ["fired"]
    assert red(board) == set()


async def test_what_does_not_fire_turns_the_scheduler_red(server: Server, canary: Canary, board: HealthBoard) -> None:
    canary.settings = canary.settings._replace(timeout_s=SHORT_S)
    assert await canary.once() == "not_delivered", "for no time passed"
    assert red(board) == {SCHEDULER}
    canary.settings = canary.settings._replace(timeout_s=5.0)
    assert await fly(server, canary) == ["fired"]
    assert red(board) == set()


async def test_a_clock_that_jumped_turns_the_scheduler_red(
    server: Server, canary: Canary, board: HealthBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._clock, "wall_ms", lambda: server._clock.now_ms + 3_600_000.0)
    await server.settle()
    assert red(board) == {SCHEDULER}
    assert "3600000 ms" in board.wrong(SCHEDULER)["clock"]
    assert await canary.once() == "refused"
    assert red(board) == {SCHEDULER}
    monkeypatch.undo()
    await server.advance(seconds=40)
    assert await fly(server, canary) == ["fired"]
    assert red(board) == set()


async def test_no_room_for_requests_turns_the_api_red(server: Server, canary: Canary, board: HealthBoard) -> None:
    canary.settings = canary.settings._replace(timeout_s=SHORT_S)
    ingest = server.node.server.api.ingest
    with ingest.hold(ingest.limit_bytes - 1_500):
        assert await canary.once() == "refused"
        assert red(board) == {API}
    canary.settings = canary.settings._replace(timeout_s=5.0)
    assert await fly(server, canary) == ["fired"]
    assert red(board) == set()


async def test_memory_that_is_full_is_not_a_fault() -> None:
    """The rest waits in the store, and what is due fires all the same."""
    async with Server(config=replace(WITH_CANARY, memory_budget_bytes=1)) as server:
        client, canary = server.client(), canary_of(server.node.probe)
        await client.schedule_many("mails", [(b"x" * 10_000, 60)] * 300)
        memory = server.node.scheduler.memory
        assert memory.used_bytes > memory.budget_bytes
        assert await fly(server, canary) == ["fired"]
        assert red(server.node.server.board) == set()


async def test_a_loop_that_failed_is_what_a_restart_cures(server: Server, board: HealthBoard) -> None:
    async def fail() -> None:
        raise RuntimeError("of this test")

    assert server.node.probe is not None
    loop = asyncio.create_task(fail())
    await asyncio.wait({loop})
    server.node.probe.watch([loop])
    server.node.probe.look()
    assert red(board) == {LIVE}
    server.node.probe.stop()


# --- among others --------------------------------------------------------------------------------------------------


async def test_a_holder_that_is_frozen_does_not_turn_its_peers_red() -> None:
    async with Cluster("a", "b", "c", config=OF_MANY) as cluster:
        canaries = {name: canary_of(each.node.probe) for name, each in cluster.instances.items()}
        assert await fly(cluster, *canaries.values()) == ["fired"] * 3
        held = [cluster.instances[name].holds() for name in canaries]
        assert all(held), "each has it in a partition of its own"
        cluster.freeze("a")
        assert await fly(cluster, canaries["b"], canaries["c"]) == ["fired"] * 2
        assert [red(cluster.instances[name].node.server.board) for name in "bc"] == [set(), set()]


async def test_an_instance_that_is_cut_off_is_red_by_its_store_and_its_lease() -> None:
    async with Cluster("a", "b", config=OF_MANY) as cluster:
        cut, other = cluster.instances["a"], cluster.instances["b"]
        cluster.freeze("a")
        cut.gate.thaw()
        cut.gate.cut()
        cut.turned.clock.now_ms += 12_000
        probe = cut.node.probe
        assert probe is not None
        assert await canary_of(probe).once() == "not_stored"
        probe.look()
        assert red(cut.node.server.board) == {STORE, SCHEDULER}
        assert set(cut.node.server.board.wrong(SCHEDULER)) == {"lease"}
        assert await fly(cluster, canary_of(other.node.probe)) == ["fired"]
        assert red(other.node.server.board) == set()
        cut.gate.cut(off=False)
        cluster._turned.append(cut.turned)
        await cluster.advance(seconds=15)
        assert await fly(cluster, canary_of(probe)) == ["fired"]
        assert red(cut.node.server.board) == set()


async def test_an_instance_that_holds_nothing_has_only_to_store_it() -> None:
    async with Cluster("a", "b", config=OF_MANY) as cluster:
        await cluster.instances["a"].member.leaving()
        await cluster.advance(seconds=5)
        canary = canary_of(cluster.instances["a"].node.probe)
        assert await fly(cluster, canary) == ["stored"]
        assert red(cluster.instances["a"].node.server.board) == set()
        await cluster.advance(seconds=3)
        other = canary_of(cluster.instances["b"].node.probe)
        assert sum(other.worker.lateness_ms.counts) == 1, "the other one delivers it"


async def test_canaries_move_no_marks() -> None:
    """Of idle instances: the transactions are heartbeats, and those that begin and end a bucket."""
    store = Counting(cast(Store, MemoryStore()))
    async with Cluster("a", "b", store=cast(Store, store), config=OF_MANY) as cluster:
        canaries = [canary_of(each.node.probe) for each in cluster.instances.values()]
        await fly(cluster, *canaries)
        before = store.counts.copy()
        for _ in range(6):
            assert await fly(cluster, *canaries) == ["fired"] * 2
            await cluster.advance(seconds=5)
        made = store.counts - before
        assert (made["append"], made["cas partition_control"]) == (12, 0)
        assert made["cas instances"] > 0, "heartbeats"
