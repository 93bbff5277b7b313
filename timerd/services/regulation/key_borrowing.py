"""Instances lend each other the permits of limit keys: each borrows what it sends by, from the keeper of the key's home
(rules L1 to L3 of docs/understand/protocol.md).

As `Borrowing` does with limits: only who borrows calls, one call for a home at a time. A call speaks of all keys of the
home that have changed, so there are as many calls as homes, however many customers there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from timerd.core.regulation import HomeRegister, KeysGrant, KeysStated, LentKeys, LimitedKey
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.background import begin
from timerd.services.holding.driving import Performs
from timerd.services.holding.membership import Membership
from timerd.services.holding.tries import surely
from timerd.services.regulation.borrowing import MOST_HOPS, MOST_WAIT_S, STORE_ERRORS
from timerd.services.regulation.coalesced_calls import CoalescedCalls
from timerd.services.regulation.keepers import HomeKeepers, Keepers
from timerd.services.regulation.key_wire import keys_in, keys_message, keys_reply_in, keys_reply_message
from timerd.services.regulation.limit_peers import LimitPeers
from timerd.services.regulation.permit_wire import LoanReply

log = logging.getLogger(__name__)


class KeyBorrowing:
    """Of one instance. `granted` hears of keys of which more may be sent."""

    def __init__(
        self,
        lent: LentKeys,
        asking: LimitPeers,
        membership: Membership,
        runner: Performs,
        boot_ms: Callable[[], float],
        granted: Callable[[Collection[LimitedKey]], None],
    ) -> None:
        self.lent = lent
        self._asking = asking
        self._membership = membership
        self._boot_ms = boot_ms
        self._granted = granted
        self.keepers: HomeKeepers = Keepers(HomeRegister(lent), membership, runner, boot_ms, self._ask_state)
        # As they were named last: (name, token).
        self._known: dict[int, tuple[str, int]] = {}
        self._calls = CoalescedCalls(self._borrow, "borrowing")
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._membership.on_lapse(self._lapse)
        self.lent.on_want(self._calls.want)

    async def step(self) -> None:
        """What is due now."""
        if self._keeping is None or self._keeping.done():
            self._keeping = begin(surely(self.keepers.step()), "borrowing")
        for home in self.lent.in_use(self._boot_ms()):
            if home not in self._calls:
                self._calls.want(home)
        await asyncio.wait([self._keeping, *self._calls.tasks()], timeout=MOST_WAIT_S)

    async def leave(self) -> None:
        """Nothing is sent any more: what is free goes back, and others keep what this one has kept."""
        self.lent.leave()
        await asyncio.gather(*(self._borrow(home) for home, each in list(self.lent.homes.items()) if each.is_used))
        await self.keepers.leave()

    # -- what others ask ------------------------------------------------------------------------------------------

    async def borrow(self, request: pb.BorrowKeysRequest) -> pb.BorrowKeysResponse:
        said = keys_in(request.statement) if request.HasField("statement") else None
        try:
            reply = await self.keepers.asked(request.home, request.name, request.incarnation, request.token, said)
        except STORE_ERRORS as error:
            log.info("the keeper of limit keys cannot be found now: %s", error)
            reply = LoanReply()
        return keys_reply_message(reply)

    def state(self, request: pb.StateKeysRequest) -> pb.StateKeysResponse:
        """P2: to a keeper, which may be a new one."""
        response = pb.StateKeysResponse(incarnation=self._membership.incarnation)
        said = self._stated(request.home, request.keeper, request.token, request.round)
        if said is not None:
            response.statement.CopyFrom(keys_message(said))
        return response

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        self.lent.lapse()
        self.keepers.lapse()
        self._known.clear()

    def _stated(self, home: int, keeper: str, token: int, heard_round: int) -> KeysStated | None:
        said = self.lent.stated(home, token, self._boot_ms(), heard_round)
        if said is not None:
            self._known[home] = keeper, token
        return said

    async def _borrow(self, home: int) -> None:
        try:
            for _ in range(MOST_HOPS):
                if await self._ask(home):
                    return
        except STORE_ERRORS as error:
            log.info("the keeper of limit keys cannot be found now: %s", error)
        self._known.pop(home, None)

    async def _ask(self, home: int) -> bool:
        """Whether it was heard, or nobody can hear it now."""
        keeper, token = self._known.get(home, ("", 0))
        said, borrowed = None, self.lent.of(home)
        if keeper and keeper != self._membership.name and not self._membership.address_of(keeper):
            keeper, token = "", 0
        if keeper:
            said = self.lent.stated(home, token, self._boot_ms())
        asked = keeper if said is not None else self.keepers.place_of(home)
        reply = await self._answer(asked, home, token, said)
        if reply is None or not reply.keeper:
            self._known.pop(home, None)
            return True
        self._known[home] = reply.keeper, reply.token
        if said is None:
            return False
        if reply.grant is None:
            borrowed.refused(said.seq, reply.token)
            return False
        if more := borrowed.granted(said.seq, reply.token, reply.grant):
            self._granted(more)
        return True

    async def _answer(self, asked: str, home: int, token: int, said: KeysStated | None) -> LoanReply[KeysGrant] | None:
        """None: none in time."""
        me, incarnation = self._membership.name, self._membership.incarnation
        if asked == me:
            return await self.keepers.asked(home, me, incarnation, token, said)
        request = pb.BorrowKeysRequest(home=home, name=me, incarnation=incarnation, token=token)
        if said is not None:
            request.statement.CopyFrom(keys_message(said))
        response: pb.BorrowKeysResponse | None = await self._asking(asked, "BorrowKeys", request)
        return None if response is None else keys_reply_in(response)

    async def _ask_state(self, name: str, home: int, token: int, heard_round: int) -> tuple[int, KeysStated] | None:
        me = self._membership.name
        if name == me:
            own = self._stated(home, me, token, heard_round)
            return None if own is None else (self._membership.incarnation, own)
        request = pb.StateKeysRequest(home=home, token=token, round=heard_round, keeper=me)
        response: pb.StateKeysResponse | None = await self._asking(name, "StateKeys", request)
        if response is None or not response.HasField("statement"):
            return None
        return response.incarnation, keys_in(response.statement)
