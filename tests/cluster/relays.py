"""Several instances in one process, each with an engine in memory, real Work and relay streams on loopback between
them, and a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import cast

import grpc.aio

from tests.services.fake_firing import FakeAlarm, FakeFiring
from tests.services.raw_worker import RawWorker
from timerd.adapters.memory import MemoryStore
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.services.calls.results import KeptResults
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.verbs import Verbs
from timerd.services.peers.peer_wire import TOKEN_HEADER
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.work.credit_allocation import CreditAllocation
from timerd.services.work.home import Home
from timerd.services.work.link import Links
from timerd.services.work.peer_links import PeerLinks
from timerd.services.work.relay_service import RelayService
from timerd.services.work.work_service import WorkService, work_handler
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceStub

GRACE_MS = 1_000
TOKEN = "shown among friends"


class Town:
    """Who lives is what the test says."""

    def __init__(self, name: str, addresses: dict[str, str]) -> None:
        self.name = name
        self.addresses = addresses
        self._changed: list[Callable[[], None]] = []

    def live(self) -> tuple[str, ...]:
        return tuple(sorted(self.addresses))

    def present(self) -> tuple[str, ...]:
        return tuple(name for name in self.live() if name != self.name)

    def address_of(self, name: str) -> str:
        return self.addresses.get(name, "")

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def tell(self) -> None:
        for changed in self._changed:
            changed()


class Instance:
    def __init__(self, name: str, addresses: dict[str, str]) -> None:
        self.name = name
        self.firing, self.alarm = FakeFiring(), FakeAlarm()
        machine, self.peer_links = DeliveryMachine(self.firing.secret, GRACE_MS), PeerLinks(MemoryStore(), b"secret")
        self.allocation = CreditAllocation(machine, self.firing, self.peer_links.links)
        self.asking = self.allocation.asking
        self.delivery = Delivery(self.firing, self.alarm, machine, remote=self.allocation, server=name)
        self.home = Home(self.delivery, self.allocation)
        self.town = Town(name, addresses)
        self.channels: dict[str, grpc.aio.Channel] = {}
        self.links = Links(self.home, self.town, self._channel, ((TOKEN_HEADER, TOKEN),))
        self.hanging_up = HangingUp()
        # Instances that have said in the store that they leave.
        self.going: set[str] = set()
        self.server = grpc.aio.server()
        work = WorkService(self.home, KeptResults(cast(Verbs, None), lambda digest, result: None), self.hanging_up)
        self.service = RelayService(self.delivery, self.asking, TOKEN, self.going.__contains__, self.hanging_up)
        self.server.add_generic_rpc_handlers((work_handler(work), self.service.handler()))
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    async def kill(self) -> None:
        """As if the process had ended: every stream breaks at once."""
        await self.links.close()
        for channel in self.channels.values():
            await channel.close()
        self.channels.clear()
        await self.server.stop(0)

    async def cut(self) -> None:
        """Its streams to the others break; `tell` lets it open new ones."""
        addresses = dict(self.town.addresses)
        self.town.addresses = {self.name: addresses[self.name]}
        self.links.look()
        self.town.addresses = addresses
        await asyncio.sleep(0.01)

    async def hang_up(self, address: str) -> None:
        """As on where nobody lives any more."""
        await self.channels.pop(address).close(0.1)

    def _channel(self, address: str) -> grpc.aio.Channel:
        if address not in self.channels:
            self.channels[address] = grpc.aio.insecure_channel(address)
        return self.channels[address]


class Cluster:
    """`async with Cluster("A", "B") as cluster:`; `cluster["A"]` is an instance."""

    def __init__(self, *names: str) -> None:
        self._addresses: dict[str, str] = {}
        self._instances = {name: Instance(name, self._addresses) for name in names}
        self._exits = AsyncExitStack()

    def __getitem__(self, name: str) -> Instance:
        return self._instances[name]

    async def __aenter__(self) -> Cluster:
        for instance in self._instances.values():
            await instance.server.start()
            self._addresses[instance.name] = f"127.0.0.1:{instance.port}"
        self.tell()
        async with asyncio.timeout(10):
            while not self._is_linked():
                await self.settle_down()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exits.aclose()
        for instance in self._instances.values():
            await instance.kill()

    def _is_linked(self) -> bool:
        return all(len(each.allocation.links) == len(self._instances) - 1 for each in self._instances.values())

    def tell(self) -> None:
        for instance in self._instances.values():
            instance.town.tell()

    async def kill(self, name: str) -> None:
        """The others notice the broken streams; that it is dead they have not found out."""
        await self._instances[name].kill()
        await self.settle_down()

    async def move(self, name: str, address: str) -> None:
        """It ends, and the others look for it there."""
        self._addresses[name] = address
        await self.kill(name)
        async with asyncio.timeout(10):
            while not all(address in each.channels for each in self._instances.values() if each.name != name):
                await self.settle_down()

    async def come_back(self, name: str) -> None:
        """As a new one, at an address of its own."""
        again = self._instances[name] = Instance(name, self._addresses)
        await again.server.start()
        self._addresses[name] = f"127.0.0.1:{again.port}"
        self.tell()

    async def settle_down(self) -> None:
        """Until everything that is under way in this process has been seen to. While others have the machine nothing
        is, so only turns count that came when they should."""
        loop, calm = asyncio.get_running_loop(), 0
        for _ in range(2_000):
            begun_s = loop.time()
            await asyncio.sleep(0.003)
            calm += loop.time() - begun_s < 0.006
            if calm == 20:
                return

    async def advance(self, by_ms: int) -> None:
        for instance in self._instances.values():
            instance.firing.turn_clock(by_ms)
        await self.settle_down()

    async def worker(
        self,
        name: str,
        *credits: tuple[str, int],
        resume: bytes = b"",
        lease_ms: int = 0,
        stream: bytes = b"",
        replaces: Sequence[bytes] = (),
        namespace: str = "",
        pools: Sequence[pb.Pool] = (),
    ) -> RawWorker:
        channel = grpc.aio.insecure_channel(self._addresses[name])
        self._exits.push_async_callback(channel.close)
        worker = RawWorker(WorkServiceStub(channel).Work())
        asked = [pb.Credit(queue=queue, tasks=tasks) for queue, tasks in credits]
        opening = pb.Open(namespace=namespace, credits=asked, resume=resume, lease_ms=lease_ms, pools=pools)
        opening.stream = stream
        opening.replaces.extend(replaces)
        await worker.open(opening)
        return worker

    def in_flight(self, names: Sequence[str]) -> list[int]:
        return [self._instances[name].delivery.in_flight for name in names]
