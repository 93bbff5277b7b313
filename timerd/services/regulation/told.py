"""Instances tell each other what rules a queue has, or a limit: who changed them waits for all that live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from timerd.core.protocol import Procedure, ReadRegister, ReadRegisters
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.instance import ROSTER, InstanceEntry, InstanceState, instance_key, roster_of
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import Regulation
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import DEADLINE_S, Peers

# Where the store does not say who lives.
NOBODY_KNOWS = "(unknown)"


class RuleTelling:
    """The other instances, as one that changes rules reaches them."""

    def __init__(self, peers: Peers, membership: Membership, runner: Performs) -> None:
        self._peers = peers
        self._membership = membership
        self._runner = runner

    async def tell(self, queue: QueueKey, rules: Regulation) -> Sequence[str]:
        """After the change. Who did not say in time that it goes by the rules; it reads them within ten seconds."""
        request = pb.TellRulesRequest(namespace=queue.namespace, queue=queue.queue, rules=rules.to_bytes())
        return await self._tell("TellRules", request)

    async def tell_limit(self, name: LimitName, kept: NamedLimit) -> Sequence[str]:
        """As `tell`, of a limit with a name."""
        request = pb.TellLimitRequest(namespace=name.namespace, name=name.limit, limit=kept.to_bytes())
        return await self._tell("TellLimit", request)

    async def _tell(self, method: str, request: Message) -> Sequence[str]:
        try:
            living = await drive(_on_the_roster(self._membership.name), self._runner)
        except (StoreUnavailable, StoreUnknown):
            return [NOBODY_KNOWS]
        asked = [each for each in living if not self._membership.is_dead(each)]
        told = await asyncio.gather(*(self._is_told(each.address, method, request) for each in asked))
        return sorted(each.name for each, is_told in zip(asked, told, strict=True) if not is_told)

    async def _is_told(self, address: str, method: str, request: Message) -> bool:
        stub: Any = RegulationPeerServiceStub(self._peers.channel(address))
        try:
            await getattr(stub, method)(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise_if_ours(error)
            return False
        return True


def _on_the_roster(me: str) -> Procedure[list[InstanceEntry]]:
    """The others that have not left. Read at the store: who has joined since this instance looked last may have read
    the rules before the change."""
    names = [name for name in roster_of((yield ReadRegister(ROSTER))) if name != me]
    stored: Sequence[bytes | None] = (yield ReadRegisters([instance_key(name) for name in names])) if names else []
    entries = [InstanceEntry.from_bytes(each) for each in stored if each is not None]
    return [each for each in entries if each.state is not InstanceState.LEFT]


def raise_if_ours(error: BaseException) -> None:
    """A channel that is hung up on cancels its calls; who asks is cancelled only where it is told so."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
