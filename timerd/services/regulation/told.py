"""Instances tell each other what rules a queue has: who changed them waits for all that live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from timerd.core.protocol import Procedure, ReadRegister, ReadRegisters
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.instance import ROSTER, InstanceEntry, InstanceState, instance_key, roster_of
from timerd.model.regulations import Regulation, read_regulation
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.peers.peer_service import admit
from timerd.services.peers.peers import DEADLINE_S, Peers
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["RegulationPeerService"].full_name
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
        try:
            living = await drive(_on_the_roster(self._membership.name), self._runner)
        except (StoreUnavailable, StoreUnknown):
            return [NOBODY_KNOWS]
        asked = [each for each in living if not self._membership.is_dead(each)]
        request = pb.TellRulesRequest(namespace=queue.namespace, queue=queue.queue, rules=rules.to_bytes())
        told = await asyncio.gather(*(self._is_told(each.address, request) for each in asked))
        return sorted(each.name for each, is_told in zip(asked, told, strict=True) if not is_told)

    async def _is_told(self, address: str, request: pb.TellRulesRequest) -> bool:
        stub: Any = RegulationPeerServiceStub(self._peers.channel(address))
        try:
            await stub.TellRules(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_ours(error)
            return False
        return True


def _on_the_roster(me: str) -> Procedure[list[InstanceEntry]]:
    """The others that have not left. Read at the store: who has joined since this instance looked last may have read
    the rules before the change."""
    names = [name for name in roster_of((yield ReadRegister(ROSTER))) if name != me]
    stored: Sequence[bytes | None] = (yield ReadRegisters([instance_key(name) for name in names])) if names else []
    entries = [InstanceEntry.from_bytes(each) for each in stored if each is not None]
    return [each for each in entries if each.state is not InstanceState.LEFT]


class RegulationPeerService:
    """Answers the other instances. `heard`: goes by the rules from its return on."""

    def __init__(self, token: str, heard: Callable[[QueueKey, Regulation], None]) -> None:
        self._token = token
        self._heard = heard

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        method: Any = grpc.unary_unary_rpc_method_handler(
            self._tell_rules, decoder(pb.TellRulesRequest), lambda reply: reply.SerializeToString()
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"TellRules": method})

    async def _tell_rules(self, received: Received[pb.TellRulesRequest], context: Context) -> pb.TellRulesResponse:
        await admit(context, self._token)
        request = received.message
        self._heard(QueueKey(request.namespace, request.queue), read_regulation(request.rules))
        return pb.TellRulesResponse()


def _raise_if_ours(error: BaseException) -> None:
    """A channel that is hung up on cancels its calls; who asks is cancelled only where it is told so."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error
