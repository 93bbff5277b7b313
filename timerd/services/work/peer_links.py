"""The streams of a home to the other instances, and what is said on them beside its workers: of deliveries whose rows
wait elsewhere.
"""

from __future__ import annotations

import asyncio
from functools import partial

from timerd.core.dispatch import Action, Failure
from timerd.model.ack_token import AckToken, token_bytes
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.peer.v1 import relay_pb2 as pb
from timerd.ports import Store
from timerd.services.work.confirm_wire import NOT_SETTLED
from timerd.services.work.link import Link
from timerd.services.work.said import Said

# No worker has this number.
NOBODY = 0
# What a peer says to a question; None: its stream broke first.
ReplyFuture = asyncio.Future[pb.RelayResponse | None]


class PeerLinks:
    """Implements PeerDeliveries. `links`: those that are open, by their numbers. `secret`: of the tokens."""

    def __init__(self, store: Store, secret: bytes) -> None:
        self.links: dict[int, Link] = {}
        self._store = store
        self._secret = secret

    async def fail(self, partition: Partition, namespace: str, token: AckToken, failure: Failure) -> bool | None:
        stored = (await self._store.read([control_key(partition)]))[0]
        holder = Control.from_bytes(stored).holder if stored is not None else ""
        return await self.fail_at(holder, namespace, token_bytes(self._secret, namespace, token), failure)

    async def fail_at(self, holder: str, namespace: str, token: bytes, failure: Failure) -> bool | None:
        """As `fail`, where the holder is known by name."""
        link = next((link for link in self.links.values() if link.name == holder), None)
        if link is None:
            return None
        answered: ReplyFuture = asyncio.get_running_loop().create_future()
        action = Action.REJECT if failure.hopeless else Action.NACK
        said = Said(action, failure.delay_ms, failure.error)
        link.settle(NOBODY, namespace, token, said, partial(resolve, answered))
        response = await answered
        if response is None or response.settled.problem.code not in (0, NOT_SETTLED):
            return None
        return not response.settled.refused

    def look_for(self, delivery_id: bytes, hold_ms: int) -> None:
        said = pb.RelayRequest(looked_for=pb.AckLookedFor(delivery_id=delivery_id, hold_ms=hold_ms))
        for link in self.links.values():
            link.send(said)

    async def sync(self) -> None:
        """Until the peers have heard what was said until now, and this home what they had said by then."""
        loop = asyncio.get_running_loop()
        answered: list[ReplyFuture] = [loop.create_future() for _ in self.links]
        for link, future in zip(self.links.values(), answered, strict=True):
            link.extend(NOBODY, b"", partial(resolve, future))
        await asyncio.gather(*answered)


def resolve(future: ReplyFuture, response: pb.RelayResponse | None) -> None:
    """Who waited may have given up meanwhile."""
    if not future.done():
        future.set_result(response)
