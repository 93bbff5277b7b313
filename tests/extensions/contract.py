"""What every gate, limit and sink keeps, on a whole instance with a clock that the test turns.

Nothing is lost, nothing comes twice or before its time, nothing after its cancel; a lease is waited for and a delivery
that nobody settled comes again; and a queue that is held, limited or stuck does not hold another one.

What is tried is named in test_contract.py: a gate or a limit by a line of bootstrap, a sink by `sink` of its class.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Protocol

import pytest

from tests.extensions.file_sink import FileSink
from timerd.adapters.memory import MemoryStore
from timerd.bootstrap import assemble
from timerd.client import Client
from timerd.sdk.values.times import datetime_of_ms
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Sink
from timerd.services.node import Node
from timerd.testing.async_server import CONFIG
from timerd.testing.clock import SimAlarm, SimClock

START_MS = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1_000)
# The queue that extensions of the suite speak of, and one that they do not.
HELD, FREE = "held", "free"


class SinkUnderTest(Sink, Protocol):
    """What the contract asks of a sink beside the port. `lease_ms`: of its deliveries. `is_stuck`: it takes what comes,
    and says nothing of it."""

    lease_ms: int
    is_stuck: bool

    def __init__(self, delivery: Delivery, path: Path) -> None:
        """It may keep something at `path`, where nothing is at first."""

    def join(self, *queues: str) -> None:
        """Begins to work these queues."""

    def delivered(self) -> Sequence[bytes]:
        """The payloads that came, in order: also to one that was at the same path before."""
        ...


class World:
    """One instance, a caller, and a sink of two queues. `came`: what was delivered, in order, with the second."""

    def __init__(self, make_sink: type[SinkUnderTest], path: Path) -> None:
        self.clock = SimClock(START_MS)
        self.alarm = SimAlarm(self.clock)
        self.store = MemoryStore()
        self.came: list[tuple[bytes, float]] = []
        self._make_sink = make_sink
        self._path = path
        self._node: Node | None = None
        self._sink: SinkUnderTest | None = None

    @property
    def node(self) -> Node:
        assert self._node is not None
        return self._node

    @property
    def sink(self) -> SinkUnderTest:
        assert self._sink is not None
        return self._sink

    async def start(self) -> Client:
        """An instance on the store, which may be the next one."""
        self._node = await assemble(CONFIG, self.store, self.clock, lambda _: self.alarm, "one")
        address = await self.node.listen()
        self._sink = self._make_sink(self.node.delivery, self._path)
        self._sink.join(HELD, FREE)
        await self._settle()
        return Client(address, clock=lambda: datetime_of_ms(self.clock.now_ms))

    async def turn(self, seconds: float) -> None:
        """From one instant at which something may happen to the next."""
        until_ms = self.clock.now_ms + round(seconds * 1_000)
        stride_ms = 1_000 if seconds <= 60 else 10_000
        while self.clock.now_ms < until_ms:
            now_ms, rings_ms = self.clock.now_ms, math.ceil(min(self.alarm.rings_ms, until_ms))
            self.clock.now_ms = min(until_ms, max(now_ms + 1, min(rings_ms, now_ms + stride_ms)))
            self.alarm.look()
            await self.node.step()
            await self._settle()

    def payloads(self) -> list[bytes]:
        return [payload for payload, _ in self.came]

    def times(self) -> dict[bytes, float]:
        """Of each that came, the second of the last time."""
        return dict(self.came)

    async def _settle(self) -> None:
        calm = 0
        while calm < 5:
            await asyncio.sleep(0.0005)
            calm = calm + 1 if self.node.delivery.is_idle else 0
        now_s = (self.clock.now_ms - START_MS) / 1_000
        self.came += [(payload, now_s) for payload in self.sink.delivered()[len(self.came) :]]


async def schedule(client: Client, queue: str, numbers: Sequence[int], at_s: float) -> dict[bytes, str]:
    """One task for each number, due at that second after the start: payload -> id."""
    when = datetime_of_ms(START_MS + round(at_s * 1_000))
    names = [b"%s-%d" % (queue.encode(), number) for number in numbers]
    tasks = [await client.schedule(queue, name, at=when) for name in names]
    return {name: task.id for name, task in zip(names, tasks, strict=True)}


class DeliveryContract:
    """`slack_s`: how long after its time a task of HELD may come at the latest. `sink`: what delivers."""

    slack_s = 10.0
    sink: ClassVar[type[SinkUnderTest]] = FileSink

    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[World]:
        world = World(self.sink, tmp_path / "delivered")
        self.client = await world.start()
        yield world
        await self.client.close()
        await world.node.stop(10)

    async def test_nothing_is_lost_and_nothing_comes_twice_or_early(self, world: World) -> None:
        due: dict[bytes, float] = {}
        for at_s in (2, 2.5, 4):
            due |= dict.fromkeys(await schedule(self.client, HELD, range(len(due), len(due) + 10), at_s), at_s)
        await world.turn(4 + self.slack_s)
        assert sorted(world.payloads()) == sorted(due)
        assert all(at_s <= world.times()[name] <= at_s + self.slack_s for name, at_s in due.items())
        await world.turn(20 * 60)
        ledger = (await world.node.engine.facts()).ledger
        assert (ledger["inserted"], ledger["acked"], ledger["unexplained"]) == (30, 30, 0)
        assert len(world.came) == 30

    async def test_nothing_comes_after_its_cancel(self, world: World) -> None:
        ids = await schedule(self.client, HELD, range(20), 2)
        await world.turn(2)
        # Whatever waits beyond its time can be cancelled still.
        came = set(world.payloads())
        for name, task_id in ids.items():
            outcome = await self.client.cancel(task_id)
            assert (outcome.name == "CANCELLED") == (name not in came), (name, outcome)
        await world.turn(self.slack_s)
        assert set(world.payloads()) == came
        await world.turn(20 * 60)
        ledger = (await world.node.engine.facts()).ledger
        assert (ledger["acked"], ledger["cancelled"], ledger["unexplained"]) == (len(came), 20 - len(came), 0)

    async def test_a_delivery_that_nobody_settles_comes_again_when_its_lease_is_over(self, world: World) -> None:
        world.sink.is_stuck = True
        ids = await schedule(self.client, FREE, range(4), 2)
        await world.turn(2 + self.slack_s)
        first_s = world.times()
        assert sorted(world.payloads()) == sorted(ids)
        lease_s = world.sink.lease_ms / 1_000
        await world.turn(lease_s - self.slack_s - 1)
        assert len(world.came) == 4
        world.sink.is_stuck = False
        await world.turn(60)
        assert sorted(world.payloads()[4:]) == sorted(ids)
        assert all(world.times()[name] >= first_s[name] + lease_s for name in ids)
        await world.turn(10 * 60)
        assert len(world.came) == 8

    async def test_a_queue_that_is_held_does_not_hold_another(self, world: World) -> None:
        await schedule(self.client, HELD, range(60), 2)
        free = await schedule(self.client, FREE, range(10), 2.2)
        await world.turn(2.3)
        at_s = {name: world.times().get(name) for name in free}
        assert self.is_prompt(at_s), at_s

    def is_prompt(self, at_s: dict[bytes, float | None]) -> bool:
        """Whether what was due at 2.2 s in FREE came then."""
        return set(at_s.values()) == {2.2}

    async def test_what_waits_when_its_instance_stops_comes_with_the_next_one(self, world: World) -> None:
        names = await schedule(self.client, HELD, range(30), 2)
        await world.turn(2.05)
        await world.node.stop(10)
        again = await world.start()
        await world.turn(20 + self.slack_s)
        await again.close()
        assert sorted(world.payloads()) == sorted(names)
