"""A worker that speaks the Work stream itself, and a service to speak to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

import grpc.aio
import pytest_asyncio

from tests.services.fake_firing import FakeAlarm, FakeFiring
from timerd.core.dispatch import DeliveryMachine, Limit
from timerd.services.calls.results import KeptResults
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.verbs import Verbs
from timerd.services.work.work_service import WorkService, work_handler
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceStub

GRACE_MS = 300
ACK, NACK, REJECT = pb.SETTLE_ACTION_ACK, pb.SETTLE_ACTION_NACK, pb.SETTLE_ACTION_REJECT
RELEASE = pb.SETTLE_ACTION_RELEASE


class Rig:
    def __init__(self, firing: FakeFiring, alarm: FakeAlarm, delivery: Delivery, channel: grpc.aio.Channel) -> None:
        self.firing, self.alarm, self.delivery = firing, alarm, delivery
        self.channel = channel
        self.stub = WorkServiceStub(channel)

    async def worker(
        self,
        *credits: tuple[str, int],
        resume: bytes = b"",
        lease_ms: int = 0,
        stream: bytes = b"",
        replaces: Sequence[bytes] = (),
        pools: Sequence[pb.Pool] = (),
    ) -> RawWorker:
        worker = RawWorker(self.stub.Work())
        asked = [pb.Credit(queue=q, tasks=n) for q, n in credits]
        opening = pb.Open(credits=asked, resume=resume, lease_ms=lease_ms, worker="test", stream=stream, pools=pools)
        opening.replaces.extend(replaces)
        await worker.open(opening)
        return worker

    async def settle_down(self) -> None:
        """Until everything that is under way in this process has been seen to."""
        for _ in range(20):
            await asyncio.sleep(0.002)

    async def advance(self, by_ms: int) -> None:
        self.firing.turn_clock(by_ms)
        await self.settle_down()


class RawWorker:
    opened: pb.Opened

    def __init__(self, call: grpc.aio.StreamStreamCall[pb.WorkRequest, pb.WorkResponse]) -> None:
        self.call = call

    async def open(self, asked: pb.Open) -> None:
        await self.call.write(pb.WorkRequest(open=asked))
        self.opened = (await self.next()).opened

    async def credit(self, queue: str, tasks: int) -> None:
        await self.call.write(pb.WorkRequest(credit=pb.Credit(queue=queue, tasks=tasks)))

    async def free(self, slots: int, pool: str = "convert") -> None:
        """So many slots of the pool are free."""
        await self.call.write(pb.WorkRequest(credit=pb.Credit(pool=pool, tasks=slots)))

    async def extend(self, tokens: bytes) -> None:
        await self.call.write(pb.WorkRequest(extend=pb.Extend(ack_tokens=tokens)))

    async def next(self) -> pb.WorkResponse:
        response = await asyncio.wait_for(self.call.read(), 10)
        assert isinstance(response, pb.WorkResponse), f"the stream ended: {response}"
        return response

    async def refusal(self) -> str:
        """What was sent before it is read first."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await self.next():
                pass
        return str(await self.call.details())

    async def deliver(self) -> pb.Deliver:
        response = await self.next()
        assert response.WhichOneof("response") == "deliver", response
        return response.deliver

    async def settle(
        self, action: pb.SettleAction, tokens: bytes, delay_ms: int | None = None, error: str = "", sequence: int = 5
    ) -> None:
        asked = pb.Settle(sequence=sequence, action=action, ack_tokens=tokens, delay_ms=delay_ms, error=error)
        await self.call.write(pb.WorkRequest(settle=asked))

    async def confirmed(self) -> pb.SettleConfirmed:
        response = await self.next()
        assert response.WhichOneof("response") == "confirmed", response
        return response.confirmed

    async def has_nothing(self) -> bool:
        """Nothing comes before the answer to a settle of nothing does."""
        await self.settle(ACK, b"", sequence=999)
        return (await self.next()).confirmed.sequence == 999


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as served:
        yield served


@contextlib.asynccontextmanager
async def serving(*limits: Limit) -> AsyncIterator[Rig]:
    """A service that asks these limits beside the standing ones."""
    firing, alarm = FakeFiring(), FakeAlarm()
    delivery = Delivery(firing, alarm, DeliveryMachine(firing.secret, GRACE_MS), server="here", limits=limits)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (work_handler(WorkService(delivery, KeptResults(cast(Verbs, None), lambda digest, result: None))),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Rig(firing, alarm, delivery, channel)
    await server.stop(0)
