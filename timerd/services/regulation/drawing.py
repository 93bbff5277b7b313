"""Instances draw the tokens of rates from the keepers of limits: each starts by what it has drawn (rules T1 to T4 of
docs/understand/protocol.md).

One call for a limit at a time, and its answer is for who has made it. What is lost on the way lapses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from timerd.core.regulation import LentRates, LimitLabels
from timerd.model.errors import NotUnderstood, StoreUnavailable, StoreUnknown
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.background import begin
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import Peers
from timerd.services.regulation.permit_wire import labels_in, limit_message
from timerd.services.regulation.token_issuer import TokenIssuer
from timerd.services.regulation.token_wire import DrawReply, draw_in, draw_message
from timerd.services.regulation.told import raise_if_ours

log = logging.getLogger(__name__)
# Who is asked may name another one, and that one is asked then.
MOST_HOPS = 3
# Tokens that take longer have lapsed.
DEADLINE_S = 1.0
NOBODY = DrawReply("")
_STORE_ERRORS = (StoreUnavailable, StoreUnknown, NotUnderstood)


class Drawing:
    """Of one instance. `answered` hears of limits of which it is known by now when more may be sent."""

    def __init__(
        self,
        rates: LentRates,
        issuer: TokenIssuer,
        peers: Peers,
        membership: Membership,
        answered: Callable[[LimitLabels], None],
    ) -> None:
        self._rates = rates
        self.issuer = issuer
        self._peers = peers
        self._membership = membership
        self._answered = answered
        # As they were named last.
        self._known: dict[LimitLabels, str] = {}
        self._calls: dict[LimitLabels, asyncio.Task[None]] = {}

    def begin(self) -> None:
        self._membership.on_lapse(self._lapse)
        self._rates.on_want(self._call)

    def step(self) -> None:
        """Calls once more where nobody has answered."""
        for labels in self._rates.to_call():
            self._call(labels)

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._rates.leave()

    async def draw(self, request: pb.DrawRequest) -> pb.DrawResponse:
        """What others ask."""
        return draw_message(await self._drawn(labels_in(request.limit), request.name, request.want, request.hold_ms))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        self._rates.lapse()
        self._known.clear()

    def _call(self, labels: LimitLabels) -> None:
        """One at a time; what is wanted meanwhile is asked for with the next one."""
        if labels not in self._calls:
            task = self._calls[labels] = begin(self._draw(labels), "drawing")
            task.add_done_callback(lambda _: self._calls.pop(labels, None))

    async def _draw(self, labels: LimitLabels) -> None:
        tokens, boot_ms = self._rates.of(labels), self._rates.boot_ms
        want, asked_ms = self._rates.asks(labels), boot_ms()
        held_for_ms = tokens.held_for_ms(asked_ms)
        for _ in range(MOST_HOPS):
            asked = self._asked(labels)
            reply = await self._answer(asked, labels, want, held_for_ms)
            if reply.grant is not None:
                tokens.told(asked_ms, held_for_ms)
                tokens.granted(asked_ms, boot_ms(), reply.grant)
                self._answered(labels)
                return
            self._known.pop(labels, None)
            if not reply.keeper or reply.keeper == asked:
                return
            self._known[labels] = reply.keeper

    def _asked(self, labels: LimitLabels) -> str:
        keeper = self._known.get(labels, "")
        if keeper and (keeper == self._membership.name or self._membership.address_of(keeper)):
            return keeper
        return self.issuer.place_of(labels)

    async def _answer(self, asked: str, labels: LimitLabels, want: int, held_for_ms: int) -> DrawReply:
        """An empty one: none in time."""
        me = self._membership.name
        if asked == me:
            return await self._drawn(labels, me, want, held_for_ms)
        address = self._membership.address_of(asked)
        if not address:
            return NOBODY
        request = pb.DrawRequest(limit=limit_message(labels), name=me, want=want, hold_ms=held_for_ms)
        stub: Any = RegulationPeerServiceStub(self._peers.channel(address))
        try:
            return draw_in(await stub.Draw(request, timeout=DEADLINE_S, metadata=self._peers.metadata))
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise_if_ours(error)
            log.info("%s did not answer Draw: %s", asked, error)
            return NOBODY

    async def _drawn(self, labels: LimitLabels, name: str, want: int, held_for_ms: int) -> DrawReply:
        """By this instance."""
        try:
            return await self.issuer.drawn(labels, name, want, held_for_ms)
        except _STORE_ERRORS as error:
            log.info("the keeper of %s cannot be found now: %s", labels, error)
            return NOBODY
