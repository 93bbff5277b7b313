"""What operators want of another instance goes from the one that they ask to that one, by these calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.peer.v1 import inspect_service_pb2 as pb
from timerd.peer.v1.inspect_service_pb2_grpc import InspectServiceStub
from timerd.services.holding.scheduler import Scheduler
from timerd.services.operating.activity import Activity
from timerd.services.operating.reporting import Reporting
from timerd.services.peers.peer_service import admit
from timerd.services.peers.peers import DEADLINE_S, Peers
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context
from timerd.v1.operate_pb2 import InstanceReport
from timerd.v1.overview_service_pb2 import InstanceActivity

SERVICE = pb.DESCRIPTOR.services_by_name["InspectService"].full_name
InspectMethod = Callable[[Any, Context], Awaitable[Any]]


async def drain(scheduler: Scheduler) -> int:
    """Hands over what is held and takes nothing new; returns how many partitions are still held. That it leaves is
    said in the register, and stays so until it starts anew."""
    await scheduler.membership.leaving()
    scheduler.look_soon()
    return len(scheduler.machines)


class InspectService:
    """Answers the other instances."""

    def __init__(self, token: str, scheduler: Scheduler, reporting: Reporting, activity: Activity) -> None:
        self._token = token
        self._scheduler = scheduler
        self._reporting = reporting
        self._activity = activity

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        methods = {
            "Inspect": _method(self._inspect, pb.InspectRequest),
            "Drain": _method(self._drain, pb.DrainRequest),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _inspect(self, received: Received[pb.InspectRequest], context: Context) -> pb.InspectResponse:
        await admit(context, self._token)
        if received.message.activity:
            return pb.InspectResponse(activity=self._activity.report())
        return pb.InspectResponse(report=await self._reporting.report())

    async def _drain(self, received: Received[pb.DrainRequest], context: Context) -> pb.DrainResponse:
        await admit(context, self._token)
        request = received.message
        if request.name != self._scheduler.membership.name:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{request.name} is not here any more.")
        return pb.DrainResponse(partitions_held=await drain(self._scheduler))


def _method(answer: InspectMethod, kind: Any) -> Any:  # noqa: ANN401 - as grpc has it
    return grpc.unary_unary_rpc_method_handler(answer, decoder(kind), lambda reply: reply.SerializeToString())


class Colleagues:
    """The other instances, as one that is asked by an operator reaches them."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def inspect(self, address: str) -> InstanceReport | None:
        """None: it does not answer."""
        reply = await self._inspected(address, pb.InspectRequest())
        return reply.report if reply is not None else None

    async def activity(self, address: str) -> InstanceActivity | None:
        """None: it does not answer, or is of a release that does not say."""
        reply = await self._inspected(address, pb.InspectRequest(activity=True))
        return reply.activity if reply is not None and reply.HasField("activity") else None

    async def _inspected(self, address: str, request: pb.InspectRequest) -> pb.InspectResponse | None:
        try:
            reply = await self._stub(address).Inspect(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_ours(error)
            return None
        return reply  # type: ignore[no-any-return]

    async def drain(self, address: str, name: str) -> int | None:
        """None: it does not answer."""
        try:
            request = pb.DrainRequest(name=name)
            reply = await self._stub(address).Drain(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_ours(error)
            return None
        return reply.partitions_held  # type: ignore[no-any-return]

    def _stub(self, address: str) -> Any:  # noqa: ANN401 - generated, without types
        return InspectServiceStub(self._peers.channel(address))


def _raise_if_ours(error: BaseException) -> None:
    """A channel that is hung up on cancels its calls; who asks is cancelled only where it is told so."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
