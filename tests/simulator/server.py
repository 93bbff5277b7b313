"""One run of the server, from start to kill or stop: the parts of production, without sockets and processes."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from tests.simulator.faults import FaultyStore
from tests.simulator.onlooker import Onlooker
from tests.simulator.virtual_loop import LoopClock, Owner, VirtualLoop
from timerd.adapters.alarm import LoopAlarm
from timerd.config import ServerConfig
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition.holding import HoldingSettings
from timerd.core.partition.memory import Memory
from timerd.ports import Store
from timerd.services.calls.results import KeptResults
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.health.health_board import HealthBoard
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.node import Node
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.work.work_service import WorkService

SECRET = b"of the simulator"
DRAIN_MS = 500
Result = TypeVar("Result")


class Gone(Exception):
    """The connection ended without an answer."""


class Wires:
    """In the place of the gRPC server: hangs up when it stops, and gives up the calls that are not over by then."""

    def __init__(self) -> None:
        # In the order in which they came, for a seed must give the same history each time.
        self.streams: dict[asyncio.Task[None], None] = {}
        self.calls: dict[asyncio.Task[Any], None] = {}
        self.board = HealthBoard()

    async def start(self) -> str:
        return "here"

    async def set_serving(self, *, serving: bool) -> None:
        """Nobody asks for its health."""

    async def stop(self, grace_ms: int) -> None:
        if self.calls or self.streams:
            await asyncio.wait([*self.calls, *self.streams], timeout=grace_ms / 1000)
        for unfinished in [*self.calls, *self.streams]:
            unfinished.cancel()
        while self.calls or self.streams:
            await asyncio.wait([*self.calls, *self.streams])


class Run:
    def __init__(
        self, loop: VirtualLoop, owner: Owner, store: FaultyStore, config: ServerConfig, settings: HoldingSettings
    ) -> None:
        self.owner = owner
        self.wires = Wires()
        self.going_away = False
        self.node = owner.context.run(self._assemble, LoopClock(loop), cast(Store, store), config, settings)
        self.work = WorkService(self.node.delivery, self._results())
        owner.spawn(self.node.start())

    def _results(self) -> KeptResults:
        """Nobody waits for one."""
        return KeptResults(self.node.engine, lambda digest, result: None)

    def _assemble(self, clock: LoopClock, store: Store, config: ServerConfig, settings: HoldingSettings) -> Node:
        """As bootstrap.assemble."""
        time = EngineTime(clock, LeaseTrust.always())
        instance, memory = InstanceMachine(config.look_ahead_ms), Memory(config.memory_budget_bytes)
        machine = DeliveryMachine(SECRET, config.resume_grace_ms)
        deliveries = Deliveries(machine, RedeliveryGuard())
        scheduler = Scheduler(
            store, time, settings, instance, memory, config.history_retention_ms, deliveries=deliveries
        )
        engine = Engine(store, scheduler, time, SECRET, config)
        firing = SchedulerFiring(scheduler, time, store, SECRET)
        delivery = Delivery(firing, LoopAlarm(time.exact_ms), machine)
        delivery.tail.join(Onlooker())
        return Node(config, store, time, scheduler, engine, delivery, cast(Any, self.wires), HangingUp())

    async def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """As a client's call over the wire. Raises Gone."""
        task = self.owner.spawn(work)
        self.wires.calls[task] = None
        task.add_done_callback(self.wires.calls.pop)
        await asyncio.wait([task])
        if task.cancelled() or self.owner.dead:
            raise Gone
        return cast(Result, task.result())

    def serve(self, context: Any) -> asyncio.Task[None]:
        """A worker's stream."""
        stream = self.owner.spawn(self.work.Work(cast(Any, None), context))
        self.wires.streams[stream] = None
        stream.add_done_callback(self.wires.streams.pop)
        return stream

    async def stop(self) -> None:
        self.going_away = True
        await asyncio.wait([self.owner.spawn(self.node.stop(DRAIN_MS))])

    def kill(self) -> None:
        self.owner.kill()
