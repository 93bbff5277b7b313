"""The other instances, as one that is asked by an operator reaches them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc.aio

from timerd.peer.v1 import inspect_service_pb2 as pb
from timerd.peer.v1.inspect_service_pb2_grpc import InspectServiceStub
from timerd.services.peers.peers import DEADLINE_S, Peers
from timerd.v1.operate_pb2 import InstanceReport
from timerd.v1.overview_service_pb2 import InstanceActivity


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

    async def watch(self, address: str, request: pb.WatchRequest) -> AsyncGenerator[pb.WatchResponse, None]:
        """What it sends, until that ends: it goes away, or is of a release that does not tell."""
        call = self._stub(address).Watch(request, metadata=self._peers.metadata)
        try:
            async for said in call:
                yield said
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_ours(error)
        finally:
            call.cancel()

    def _stub(self, address: str) -> Any:  # noqa: ANN401 - generated, without types
        return InspectServiceStub(self._peers.channel(address))


def _raise_if_ours(error: BaseException) -> None:
    """A channel that is hung up on cancels its calls; who asks is cancelled only where it is told so."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
