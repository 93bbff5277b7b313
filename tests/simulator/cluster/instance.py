"""One run of one instance of a cluster, from start to kill or stop: assembled as in production, with a store and a
network of the simulator's and without sockets."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from tests.simulator.cluster.net import Details, Net
from tests.simulator.cluster.pausing import PausingLoop, Stoppable
from tests.simulator.cluster.store import RemoteStore
from tests.simulator.server import DRAIN_MS, Gone, Wires
from tests.simulator.virtual_loop import LoopClock
from timerd.adapters.alarm import LoopAlarm
from timerd.bootstrap import assemble
from timerd.config import ServerConfig
from timerd.core.cluster.membership import Timing
from timerd.core.dispatch import Assignment
from timerd.core.partition.holding import HoldingSettings
from timerd.core.regulation import AllRules
from timerd.model.errors import TimerdError
from timerd.ports import Store
from timerd.services.dispatch.ports import Sent
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.health.health_board import HealthBoard
from timerd.services.holding.membership import Member
from timerd.services.node import Node
from timerd.services.work.home_worker import each_token
from timerd.services.work.work_service import WorkService

Result = TypeVar("Result")


class OwnClock(LoopClock):
    """Of one machine: `off_ms` since ever, `stepped_ms` by somebody."""

    off_ms = stepped_ms = 0.0

    def wall_ms(self) -> float:
        return super().wall_ms() + self.off_ms + self.stepped_ms


class Door(Wires):
    """In the place of the gRPC server."""

    def __init__(self, run: Instance, work: WorkService, inside: Sequence[Any]) -> None:
        super().__init__()
        self.board = HealthBoard()
        self.work = work
        self.inside = inside
        self._run = run

    async def start(self) -> str:
        self._run.listens = True
        return self._run.address

    async def stop(self, grace_ms: int) -> None:
        self._run.listens = False
        await super().stop(grace_ms)

    async def kill(self) -> None:
        self._run.listens = False


class Instance:
    """Implements Host. `serves`: it has joined. `died`: its start failed."""

    def __init__(
        self,
        name: str,
        address: str,
        loop: PausingLoop,
        net: Net,
        store: RemoteStore,
        config: ServerConfig,
        settings: HoldingSettings,
        timing: Timing,
        told: Callable[[Instance, str], None],
    ) -> None:
        self.name = name
        self.address = address
        self.owner = Stoppable(loop)
        self.store = store
        self.clock = OwnClock(loop)
        self.listens = self.going_away = self.serves = self.has_served = False
        self._net = net
        self._told = told
        self._loop = loop
        net.hosts[address] = self
        self.owner.spawn(self._start(config, settings, timing))

    async def _start(self, config: ServerConfig, settings: HoldingSettings, timing: Timing) -> None:
        try:
            store, serve, connect = cast(Store, self.store), cast(Any, self._door), cast(Any, self._channel)
            self.node = await assemble(config, store, self.clock, LoopAlarm, self.name, timing, serve, connect=connect)
            self._tune(self.node, settings)
            await self.node.start()
        except TimerdError as error:
            self._told(self, f"did not start: {error}")
            return
        self.serves = self.has_served = True
        self._told(self, "started")

    def _door(self, _: ServerConfig, __: Any, work: WorkService, inside: Sequence[Any]) -> Door:
        self.wires = Door(self, work, inside)
        return self.wires

    def _channel(self, address: str) -> Any:
        return self._net.channel(self, address)

    def _tune(self, node: Node, settings: HoldingSettings) -> None:
        """Before it serves: what in production is never another value."""
        node.scheduler._settings = replace(settings, holder=self.name, traits=self.store.traits)
        node.membership.on_lapse(lambda: self._told(self, "lapsed"))
        node.delivery._send = self._noting(node.delivery._send)  # type: ignore[method-assign, assignment]
        self._regulate(node)
        # All have the time of the loop.
        node.clocks = None

    def _regulate(self, node: Node) -> None:
        """Queues have no rules here, so the store is not asked for any."""
        assert node.regulating is not None
        node.regulating.known.read(AllRules(), 0)
        node.regulating = None

    def _noting(self, send: Callable[[Assignment], Sent]) -> Callable[[Assignment], Sent]:
        """A delivery starts in the step that takes its row: an instance that is stopped before the message has left
        writes it when it goes on, and nothing could call it back then."""

        def noted(assignment: Assignment) -> Sent:
            for token in each_token(ack_tokens(assignment.taken, self.node.delivery.secret)):
                self._net.sent_ms[token] = self._loop.now_ms
            self._starts(assignment)
            return send(assignment)

        return noted

    def _starts(self, assignment: Assignment) -> None:
        """Nobody counts it."""

    @property
    def member(self) -> Member:
        return cast(Member, self.node.membership)

    # -- who calls ------------------------------------------------------------------------------------------------

    def handler(self, details: Details) -> Any:
        found = (each.service(details) for each in self.wires.inside)
        return next(each for each in found if each is not None)

    def took_stream(self, task: asyncio.Task[Any]) -> None:
        self.wires.streams[task] = None
        task.add_done_callback(self.wires.streams.pop, context=self._loop.outside)

    async def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """As a client's call over the wire. Raises Gone."""
        task = self.owner.spawn(work)
        self.wires.calls[task] = None
        task.add_done_callback(self.wires.calls.pop, context=self._loop.outside)
        await asyncio.wait([task])
        if task.cancelled() or self.owner.dead:
            raise Gone
        return cast(Result, task.result())

    def serve(self, context: Any) -> asyncio.Task[None]:
        """A worker's stream."""
        stream = self.owner.spawn(self.wires.work.Work(cast(Any, None), context))
        self.took_stream(stream)
        return stream

    # -- what becomes of it ---------------------------------------------------------------------------------------

    async def stop(self) -> None:
        self.going_away = True
        await asyncio.wait([self.owner.spawn(self.node.stop(DRAIN_MS))])

    def kill(self) -> None:
        self.listens = self.serves = False
        self.owner.kill()
        self._net.ended(self)
