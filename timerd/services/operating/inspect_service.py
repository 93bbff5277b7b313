"""What operators want of another instance goes from the one that they ask to that one, by these calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from timerd.peer.v1 import inspect_service_pb2 as pb
from timerd.services.holding.scheduler import Scheduler
from timerd.services.operating.activity import Activity
from timerd.services.operating.reporting import Reporting
from timerd.services.operating.watching import Watching
from timerd.services.peers.peer_service import admit
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

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

    def __init__(
        self, token: str, scheduler: Scheduler, reporting: Reporting, activity: Activity, watching: Watching
    ) -> None:
        self._token = token
        self._scheduler = scheduler
        self._reporting = reporting
        self._activity = activity
        self._watching = watching

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        methods = {
            "Inspect": _method(self._inspect, pb.InspectRequest),
            "Drain": _method(self._drain, pb.DrainRequest),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch, decoder(pb.WatchRequest), _serialized),
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

    async def _watch(self, received: Received[pb.WatchRequest], context: Context) -> None:
        await admit(context, self._token)
        await self._watching.watch_here(received.message, context.write)


def _method(answer: InspectMethod, kind: Any) -> Any:  # noqa: ANN401 - as grpc has it
    return grpc.unary_unary_rpc_method_handler(answer, decoder(kind), _serialized)


def _serialized(reply: Message) -> bytes:
    return reply.SerializeToString()
