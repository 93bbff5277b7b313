"""Ticks of schedules of a zone that this instance may not compute: another one works them, this one acknowledges.

A tick is worked against the store, not against the instance that holds it, so any instance may do it. One of a release
that does not know the call, or whose data differ as well, says so, and the next one is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.peer.v1 import tick_service_pb2 as pb
from timerd.peer.v1.tick_service_pb2_grpc import TickServiceStub
from timerd.services.holding.membership import Membership
from timerd.services.peers.peer_service import admit
from timerd.services.peers.peers import PATIENT_S, Peers
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["TickService"].full_name


class OtherInstances:
    """Those that may work a tick for this one."""

    def __init__(self, peers: Peers, membership: Membership) -> None:
        self._peers = peers
        self._membership = membership

    async def work(self, tick: bytes) -> bool:
        """Whether one of them has worked it to its end."""
        me = self._membership
        for name in sorted({*me.live()} - {me.name}):
            if await self._worked_by(me.address_of(name), tick):
                return True
        return False

    async def _worked_by(self, address: str, tick: bytes) -> bool:
        stub: Any = TickServiceStub(self._peers.channel(address))
        try:
            request = pb.WorkTickRequest(tick=tick)
            reply = await stub.WorkTick(request, timeout=PATIENT_S, metadata=self._peers.metadata)
        except grpc.aio.AioRpcError:
            return False
        return not reply.error


class TickService:
    """Answers the other instances. `work`: a tick, to its end; what it says kept it from that."""

    def __init__(self, token: str, work: Callable[[bytes], Awaitable[str]]) -> None:
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
        return pb.WorkTickResponse(error=await self._work(received.message.tick))
