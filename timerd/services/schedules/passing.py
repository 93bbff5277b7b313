"""Ticks of schedules and backfills of a zone that this instance may not compute: another one works them, this one
acknowledges.

A tick is worked against the store, not against the instance that holds it, so any instance may do it. One of a release
that does not know the call, or whose data differ as well, says so, and the next one is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.model.backfills import BackfillTick
from timerd.model.schedules import Tick
from timerd.peer.v1 import tick_service_pb2 as pb
from timerd.peer.v1.tick_service_pb2_grpc import TickServiceStub
from timerd.services.holding.membership import Membership
from timerd.services.peers.peer_service import admit
from timerd.services.peers.peers import PATIENT_S, Peers
from timerd.services.schedules.ticking import AnyTick
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["TickService"].full_name


def request_of(tick: AnyTick) -> pb.WorkTickRequest:
    """An instance that knows no backfills is asked for a tick of nothing, which it cannot read."""
    stored = tick.to_bytes()
    return (
        pb.WorkTickRequest(backfill_tick=stored) if isinstance(tick, BackfillTick) else pb.WorkTickRequest(tick=stored)
    )


def tick_of(request: pb.WorkTickRequest) -> AnyTick:
    if request.backfill_tick:
        return BackfillTick.from_bytes(request.backfill_tick)
    return Tick.from_bytes(request.tick)


class OtherInstances:
    """Those that may work a tick for this one."""

    def __init__(self, peers: Peers, membership: Membership) -> None:
        self._peers = peers
        self._membership = membership

    async def work(self, tick: AnyTick) -> bool:
        """Whether one of them has worked it to its end."""
        me, request = self._membership, request_of(tick)
        for name in sorted({*me.live()} - {me.name}):
            if await self._worked_by(me.address_of(name), request):
                return True
        return False

    async def _worked_by(self, address: str, request: pb.WorkTickRequest) -> bool:
        stub: Any = TickServiceStub(self._peers.channel(address))
        try:
            reply = await stub.WorkTick(request, timeout=PATIENT_S, metadata=self._peers.metadata)
        except grpc.aio.AioRpcError:
            return False
        return not reply.error


class TickService:
    """Answers the other instances. `work`: a tick, to its end; what it says kept it from that."""

    def __init__(self, token: str, work: Callable[[AnyTick], Awaitable[str]]) -> None:
        self._token = token
        self._work = work

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        method: Any = grpc.unary_unary_rpc_method_handler(
            self._work_tick, decoder(pb.WorkTickRequest), lambda reply: reply.SerializeToString()
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"WorkTick": method})

    async def _work_tick(self, received: Received[pb.WorkTickRequest], context: Context) -> pb.WorkTickResponse:
        await admit(context, self._token)
        return pb.WorkTickResponse(error=await self._work(tick_of(received.message)))
