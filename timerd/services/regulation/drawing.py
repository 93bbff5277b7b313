"""Instances draw the tokens of rates from the keepers of limits: each starts by what it has drawn, and what it does not
use goes back (rules T1 to T6 of docs/understand/protocol.md).

One call for a limit at a time, and its answer is for who has made it. What is lost on the way lapses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from timerd.core.regulation import GIVE_BACK_MS, LentRates, LimitLabels, TokenAsk
from timerd.model.errors import NotUnderstood, StoreUnavailable, StoreUnknown
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.peer.v1.regulation_peer_pb2_grpc import RegulationPeerServiceStub
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import Peers
from timerd.services.regulation.coalesced_calls import CoalescedCalls
from timerd.services.regulation.permit_wire import labels_in
from timerd.services.regulation.token_issuer import TokenIssuer
from timerd.services.regulation.token_wire import DrawReply, ask_in, draw_in, draw_message, draw_request
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
        self._calls = CoalescedCalls(self._draw, "drawing")

    def begin(self) -> None:
        self._membership.on_lapse(self._lapse)
        self._rates.on_want(self._calls.want)

    def step(self) -> None:
        """Calls once more where nobody has answered."""
        for labels in self._rates.to_call():
            self._calls.want(labels)

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._rates.leave()

    async def draw(self, request: pb.DrawRequest) -> pb.DrawResponse:
        """What others ask."""
        return draw_message(await self._drawn(labels_in(request.limit), request.name, ask_in(request)))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        self._rates.lapse()
        self._known.clear()

    async def _draw(self, labels: LimitLabels) -> None:
        tokens, boot_ms = self._rates.of(labels), self._rates.boot_ms
        if not tokens.is_due(boot_ms()):
            return
        ask, asked_ms = self._rates.asks(labels), boot_ms()
        for _ in range(MOST_HOPS):
            asked = self._asked(labels)
            reply = await self._answer(asked, labels, ask)
            if reply.grant is not None:
                tokens.answered(ask, asked_ms, boot_ms(), reply.grant)
                self._answered(labels)
                if reply.grant.bunch:
                    asyncio.get_running_loop().call_later(give_back_s(reply.grant.after_ms), self._look, labels)
                return
            self._known.pop(labels, None)
            if not reply.keeper or reply.keeper == asked:
                return
            self._known[labels] = reply.keeper

    def _look(self, labels: LimitLabels) -> None:
        """What was drawn should have been used by now."""
        if self._rates.of(labels).is_due(self._rates.boot_ms()):
            self._calls.want(labels)

    def _asked(self, labels: LimitLabels) -> str:
        keeper = self._known.get(labels, "")
        if keeper and (keeper == self._membership.name or self._membership.address_of(keeper)):
            return keeper
        return self.issuer.place_of(labels)

    async def _answer(self, asked: str, labels: LimitLabels, ask: TokenAsk) -> DrawReply:
        """An empty one: none in time."""
        me = self._membership.name
        if asked == me:
            return await self._drawn(labels, me, ask)
        address = self._membership.address_of(asked)
        if not address:
            return NOBODY
        stub: Any = RegulationPeerServiceStub(self._peers.channel(address))
        try:
            return draw_in(
                await stub.Draw(draw_request(labels, me, ask), timeout=DEADLINE_S, metadata=self._peers.metadata)
            )
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            raise_if_ours(error)
            log.info("%s did not answer Draw: %s", asked, error)
            return NOBODY

    async def _drawn(self, labels: LimitLabels, name: str, ask: TokenAsk) -> DrawReply:
        """By this instance."""
        try:
            return await self.issuer.drawn(labels, name, ask)
        except _STORE_ERRORS as error:
            log.info("the keeper of %s cannot be found now: %s", labels, error)
            return NOBODY


def give_back_s(after_ms: int) -> float:
    """When tokens that begin then should have been used."""
    return (after_ms + GIVE_BACK_MS + 1) / 1_000
