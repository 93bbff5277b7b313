"""Instances draw the tokens of the rates of limit keys from the keepers of the homes: each starts by what it has drawn
(rules T1 to T5 of docs/understand/protocol.md).

One call for a home at a time, which speaks of all its keys that are held back here. What is lost on the way lapses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from timerd.core.regulation import MOST_ASKED, KeyAsk, LentKeyRates, LimitedKey
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.holding.membership import Membership
from timerd.services.regulation.borrowing import MOST_HOPS, STORE_ERRORS
from timerd.services.regulation.coalesced_calls import CoalescedCalls
from timerd.services.regulation.key_token_issuer import KeyTokenIssuer
from timerd.services.regulation.limit_peers import LimitPeers
from timerd.services.regulation.token_wire import (
    KeysDrawReply,
    asks_in,
    draw_keys_in,
    draw_keys_message,
    draw_keys_request,
)

log = logging.getLogger(__name__)
NOBODY = KeysDrawReply("")


class KeyDrawing:
    """Of one instance. `answered` hears of keys of which it is known by now when more may be sent."""

    def __init__(
        self,
        rates: LentKeyRates,
        issuer: KeyTokenIssuer,
        asking: LimitPeers,
        membership: Membership,
        answered: Callable[[Collection[LimitedKey]], None],
    ) -> None:
        self.rates = rates
        self.issuer = issuer
        self._asking = asking
        self._membership = membership
        self._answered = answered
        # As they were named last.
        self._known: dict[int, str] = {}
        self._calls = CoalescedCalls(self._draw, "drawing")

    def begin(self) -> None:
        self._membership.on_lapse(self._lapse)
        self.rates.on_want(self._calls.want)

    def step(self) -> None:
        """Calls once more where nobody has answered."""
        for home in self.rates.to_call():
            self._calls.want(home)

    def leave(self) -> None:
        """Nothing is sent any more."""
        self.rates.leave()

    async def draw(self, request: pb.DrawKeysRequest) -> pb.DrawKeysResponse:
        """What others ask."""
        asks = asks_in(request)
        return draw_keys_message(asks, await self._drawn(request.home, request.name, asks))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        self.rates.lapse()
        self._known.clear()

    async def _draw(self, home: int) -> None:
        """Where nobody answers it is asked again with the next step."""
        asks, asked_ms = self.rates.asks(home), self.rates.boot_ms()
        for _ in range(MOST_HOPS if asks else 0):
            asked = self._asked(home)
            reply = await self._answer(asked, home, asks)
            if reply.grants is not None:
                self.rates.granted(asked_ms, asks, reply.grants)
                self._answered(reply.grants.keys())
                if len(asks) == MOST_ASKED:
                    self._calls.want(home)
                return
            self._known.pop(home, None)
            if not reply.keeper or reply.keeper == asked:
                return
            self._known[home] = reply.keeper

    def _asked(self, home: int) -> str:
        keeper = self._known.get(home, "")
        if keeper and (keeper == self._membership.name or self._membership.address_of(keeper)):
            return keeper
        return self.issuer.place_of(home)

    async def _answer(self, asked: str, home: int, asks: Mapping[LimitedKey, KeyAsk]) -> KeysDrawReply:
        """An empty one: none in time."""
        me = self._membership.name
        if asked == me:
            return await self._drawn(home, me, asks)
        response: pb.DrawKeysResponse | None = await self._asking(asked, "DrawKeys", draw_keys_request(home, me, asks))
        return NOBODY if response is None else draw_keys_in(asks, response)

    async def _drawn(self, home: int, name: str, asks: Mapping[LimitedKey, KeyAsk]) -> KeysDrawReply:
        """By this instance."""
        try:
            return await self.issuer.drawn(home, name, asks)
        except STORE_ERRORS as error:
            log.info("the keeper of limit keys cannot be found now: %s", error)
            return NOBODY
