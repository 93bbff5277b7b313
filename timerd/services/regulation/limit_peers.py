"""How an instance asks another one about limits: it has an answer in time, or none."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import DEADLINE_S, Peers
from timerd.services.regulation.told import raise_if_ours

log = logging.getLogger(__name__)


class LimitPeers:
    """Of one instance."""

    def __init__(self, peers: Peers, membership: Membership) -> None:
        self._peers = peers
        self._membership = membership

    async def __call__(self, name: str, method: str, request: Message) -> Any:  # noqa: ANN401 - each has its own
        """None: no answer, or it is of a release that does not know the question."""
        address = self._membership.address_of(name)
        if not address:
            return None
        stub: Any = RegulationPeerServiceStub(self._peers.channel(address))
        try:
            return await getattr(stub, method)(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise_if_ours(error)
            log.info("%s did not answer %s: %s", name, method, error)
            return None
