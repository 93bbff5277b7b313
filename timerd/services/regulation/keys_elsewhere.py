"""What the other instances of a cluster say of the ordering keys that they keep, for the caller of this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from timerd.core.taken import QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import parse_task_id
from timerd.model.partition import TIME_SCOPE, Partition, key_shard_of
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.engine.ordering import Ordering
from timerd.services.engine.verbs import State, TaskView
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import DEADLINE_S, Peers
from timerd.services.regulation.told import raise_if_ours
from timerd.v1 import regulation_service_pb2 as wire

# A caller that is refused because somebody does not answer comes again then: it is known to be gone soon.
AGAIN_MS = 1_000


class KeysElsewhere:
    """The other instances, as one that is asked about ordering keys reaches them. `place_of`: who should hold a
    partition, and so keeps its key shard."""

    def __init__(
        self, peers: Peers, membership: Membership, ordering: Ordering, place_of: Callable[[Partition], str]
    ) -> None:
        self._peers = peers
        self._membership = membership
        self._ordering = ordering
        self._place_of = place_of

    async def kept(self, queue: QueueKey, most: int) -> Sequence[wire.ListKeysResponse]:
        """What each says of the keys of the queue that it keeps. Raises Unavailable where one does not answer."""
        names = sorted(self._membership.present())
        request = pb.ListKeptRequest(namespace=queue.namespace, queue=queue.queue, limit=most)
        replies = await asyncio.gather(*(self._asked(name, "ListKept", request) for name in names))
        if silent := [name for name, reply in zip(names, replies, strict=True) if reply is None]:
            raise Unavailable(
                f"{', '.join(silent)} did not answer, and may keep ordering keys of the queue {queue.queue!r}: repeat "
                "the call in a moment.",
                "KEEPER_SILENT",
                retry_after_ms=AGAIN_MS,
            )
        return [wire.ListKeysResponse(keys=reply.keys, halted=reply.halted) for reply in replies]

    async def with_before(self, view: TaskView) -> TaskView:
        """With the task that comes before it, by who keeps its key; as it is where that one does not answer."""
        if view.template is None or not view.ordering_key or view.state not in (State.PENDING, State.RETRYING):
            return view
        queue = QueueKey(view.template.namespace, view.template.queue)
        keeper = self._place_of(Partition(TIME_SCOPE, 0, key_shard_of(*queue, view.ordering_key)))
        if self._ordering.keeps(queue, view.ordering_key) or keeper in ("", self._membership.name):
            return view
        names = {"namespace": queue.namespace, "queue": queue.queue, "ordering_key": view.ordering_key}
        reply = await self._asked(keeper, "FindBefore", pb.FindBeforeRequest(**names, digest=view.task_id.digest))
        if reply is None or not reply.task_id:
            return view
        return replace(view, behind=parse_task_id(reply.task_id), is_halted=reply.halted)

    async def _asked(self, name: str, method: str, request: Message) -> Any:  # noqa: ANN401 - each method has its own
        """None: it does not answer, or is of a release that does not say."""
        stub: Any = RegulationPeerServiceStub(self._peers.channel(self._membership.address_of(name)))
        try:
            return await getattr(stub, method)(request, timeout=DEADLINE_S, metadata=self._peers.metadata)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise_if_ours(error)
            return None
