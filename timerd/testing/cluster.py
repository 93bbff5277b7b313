"""Several instances on one store inside a test, by one clock that the test turns.

    async with timerd.testing.Cluster("a", "b", "c") as cluster:
        worker, client = cluster.worker("a"), cluster.client("b")
        ...
        await client.schedule("mails", b"hello", delay=60)
        await cluster.kill("c")
        await cluster.advance(minutes=2)

Each instance is whole: its own port on loopback, its own view of who lives, its own way to the store, which can be
frozen (`freeze`, as a process that is stopped and goes on later) or cut (`cut`). Time passes in steps of a heartbeat
at most, so that minutes take seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Self, cast

from timerd.adapters.memory import MemoryStore
from timerd.bootstrap import assemble
from timerd.client import Client
from timerd.config import ServerConfig
from timerd.core.cluster import Timing
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.ports import Hints, Store, ZoneData
from timerd.sdk.values import Span, datetime_of_ms, instant_ms
from timerd.services.holding.membership import Member
from timerd.services.node import Node
from timerd.testing.async_server import CONFIG, START
from timerd.testing.clock import SimAlarm, SimClock, Sleepers
from timerd.testing.gate import StoreGate
from timerd.testing.spans import turn_ms
from timerd.testing.turning import Instance, Turning
from timerd.testing.workers import Worker

TIMING = Timing()


@dataclass(slots=True)
class Running:
    """One instance of the cluster; `gate` is its way to the store."""

    turned: Instance
    gate: StoreGate

    @property
    def node(self) -> Node:
        return self.turned.node

    @property
    def member(self) -> Member:
        return cast(Member, self.node.membership)

    def holds(self) -> list[Partition]:
        return sorted(self.node.scheduler.machines)


class Cluster:
    """A test cluster is several instances of timerd on one store, by one clock that the test turns.

    Args:
        names: the names of the instances that it begins with.
        store: the store that they share. Default one in memory.
        start: the instant that the clock shows at first, a datetime with a zone. Default 2030-01-01 UTC.
        config: the configuration of each. Default that of `timerd serve`, on a free port, without fsync.
        timing: how often instances show that they live, and how long they are believed. Default 2 s and 10 s.
        patience_s: how long handlers may take in real time, in seconds; then `advance` raises TimeoutError. Default 20.
        hints: a function that makes an instance's second way to the others. Default none.
        zones: the data of time zones of each, as `timerd.ports.ZoneData` says. Default those of the package tzdata.
    """

    def __init__(
        self,
        *names: str,
        store: Store | None = None,
        start: datetime = START,
        config: ServerConfig = CONFIG,
        timing: Timing = TIMING,
        patience_s: float = 20.0,
        hints: Callable[[], Hints] | None = None,
        zones: ZoneData | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.instances: dict[str, Running] = {}
        self._names = names
        self._config = config
        self._timing = timing
        self._hints = hints
        self._zones = zones
        self._sleepers = Sleepers()
        self._workers: list[Worker] = []
        self._clients: list[Client] = []
        self._turned: list[Instance] = []
        now_ms = instant_ms(start, "start")
        self._turning = Turning(
            self._turned, now_ms, self._sleepers, self._workers, patience_s, longest_ms=timing.heartbeat_ms // 2
        )

    async def __aenter__(self) -> Self:
        for name in self._names:
            await self.add(name)
        await self.advance(milliseconds=self._timing.heartbeat_ms)
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._workers:
            await worker.kill()
        for client in self._clients:
            await client.close()
        for name in list(self.instances):
            await self.kill(name)

    # -- instances ------------------------------------------------------------------------------------------------

    async def add(self, name: str, clock_offset_ms: int = 0, zones: ZoneData | None = None) -> Running:
        """The cluster gets one more instance, which serves when this returns.

        Where an earlier one of the name was killed, its lease is waited for in virtual time.

        Args:
            name: the name of the instance.
            clock_offset_ms: what its wall clock shows more than the right time, in milliseconds. Default 0.
            zones: its data of time zones, as `timerd.ports.ZoneData` says. Default those of the cluster.

        Raises:
            StartupError: it cannot start.
        """
        clock = SimClock(self._turning.now_ms, clock_offset_ms)
        alarm, gate = SimAlarm(clock), StoreGate(self.store)
        hints = self._hints() if self._hints is not None else None
        waits = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waits.set()
            await self.sleep(seconds=seconds)
            waits.clear()
            clock.now_ms = self._turning.now_ms

        store = cast(Store, gate)
        joining = partial(assemble, hints=hints, sleep=sleep, zones=zones or self._zones)
        node = await joining(self._config, store, clock, lambda _: alarm, name, self._timing)
        running = Running(Instance(node, clock, alarm), gate)
        listening = asyncio.create_task(node.listen())
        while not (await asyncio.wait({listening}, timeout=0.02))[0]:
            # A handler that only waits for an answer needs no time that passes.
            if waits.is_set():
                await self.advance(milliseconds=self._timing.heartbeat_ms)
        await listening
        self.instances[name] = running
        self._turned.append(running.turned)
        await self.settle()
        return running

    async def stop(self, name: str, drain_ms: int = 10_000) -> None:
        """The instance `name` stops gracefully, as by SIGTERM; the others go on meanwhile.

        Args:
            name: the name of the instance.
            drain_ms: how long its workers have to finish, in milliseconds. Default 10,000.
        """
        running = self.instances.pop(name)
        self._turned.remove(running.turned)
        stopping = asyncio.create_task(running.node.stop(drain_ms))
        while not (await asyncio.wait({stopping}, timeout=0.01))[0]:
            for each in self._turned:
                each.alarm.look()
                await each.node.step()
        await stopping
        await self.settle()

    async def kill(self, name: str) -> None:
        """The instance `name` ends as by SIGKILL: nothing of it is heard any more."""
        running = self.instances.pop(name)
        if running.turned in self._turned:
            self._turned.remove(running.turned)
        running.gate.kill()
        running.node.scheduler.machines.clear()
        running.node.delivery.close()
        if running.node.relaying is not None:
            await running.node.relaying.links.close()
        if running.node.peering is not None:
            await running.node.peering.peers.close_other_way()
        for sinks in (running.node.webhooks, running.node.streams):
            if sinks is not None:
                await sinks.close()
        await running.node.server.kill()

    def freeze(self, name: str) -> None:
        """The instance `name` stands still with its clocks, as by SIGSTOP; but who asks it may get an answer."""
        running = self.instances[name]
        running.gate.freeze()
        self._turned.remove(running.turned)

    def thaw(self, name: str) -> None:
        """The instance `name`, which was frozen, goes on; its clocks show what they show everywhere."""
        running = self.instances[name]
        running.turned.clock.now_ms = self._turning.now_ms
        self._turned.append(running.turned)
        running.gate.thaw()

    def step_clock(self, name: str, by_ms: int) -> None:
        """The wall clock of the instance `name` jumps by `by_ms` milliseconds."""
        self.instances[name].turned.clock.offset_ms += by_ms

    async def holders(self, *partitions: Partition) -> list[str]:
        """The call returns the names of the instances that hold `partitions`, as the store says it; "" for none."""
        stored = await self.store.read([control_key(p) for p in partitions])
        return [Control.from_bytes(raw).holder if raw is not None else "" for raw in stored]

    # -- time -----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """This is what the right clock shows, in UTC."""
        return datetime_of_ms(self._turning.now_ms)

    async def advance(self, span: timedelta | None = None, **parts: float) -> None:
        """All clocks are turned forward, as by `advance(minutes=2)`, in steps of half a heartbeat at most.

        Args:
            span: how much, a timedelta. Default none.
            parts: in its place or beside it the parts of a timedelta, as `minutes=5`.

        Raises:
            ValueError: the span leads back.
            TypeError: it is no span.
            TimeoutError: handlers or deliveries have not ended within `patience_s` of real time.
        """
        await self._turning.turn_to(self._turning.now_ms + turn_ms(span, parts))

    async def settle(self) -> None:
        """The call returns when everything that is due now is delivered and settled; no time passes.

        Raises:
            TimeoutError: as for `advance`.
        """
        await self._turning.settle()

    async def sleep(self, span: timedelta | None = None, **parts: float) -> None:
        """A handler waits for virtual time to pass.

        Args:
            span: how much, a timedelta. Default none.
            parts: in its place or beside it the parts of a timedelta, as `minutes=5`.
        """
        await self._sleepers.sleep(self._turning.now_ms + turn_ms(span, parts))

    # -- who uses it ----------------------------------------------------------------------------------------------

    def client(self, name: str, *, namespace: str = "default") -> Client:
        """The cluster makes a client of one instance. It is closed with the cluster.

        Args:
            name: the name of the instance.
            namespace: the namespace of its tasks. Default "default".
        """
        client = Client(self.instances[name].node.address, clock=lambda: self.now, namespace=namespace)
        self._clients.append(client)
        return client

    def worker(self, *names: str, namespace: str = "default", lease: Span = 30.0, silent: bool = False) -> Worker:
        """The cluster makes a worker of the first of these instances, and of the next one when that is gone.

        Args:
            names: the names of the instances.
            namespace: the namespace of its tasks. Default "default".
            lease: how long a delivery stays with it after an instance last heard of it, a timedelta or seconds. Default
                30 s.
            silent: whether it never extends its leases, like one that hangs. Default no.
        """
        addresses = [self.instances[name].node.address for name in names]
        target = addresses[0] if len(addresses) == 1 else "ipv4:" + ",".join(addresses)
        worker = Worker(target, lambda: self.now, namespace, lease, silent=silent)
        self._workers.append(worker)
        return worker
