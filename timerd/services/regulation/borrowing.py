"""Instances lend each other the permits of limits: each borrows what it sends by, from the keeper of the limit.

Only who borrows calls, one call for a limit at a time, and each call says all that it has. So whatever is lost, the
next call puts it right (rules P1 to P5 of docs/understand/protocol.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from timerd.core.regulation import Grant, LentLimits, LimitLabels, LimitRegister, Stated
from timerd.model.errors import NotUnderstood, StoreUnavailable, StoreUnknown
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.background import begin
from timerd.services.holding.driving import Performs
from timerd.services.holding.membership import Membership
from timerd.services.holding.tries import surely
from timerd.services.regulation.keepers import Keepers, LimitKeepers
from timerd.services.regulation.limit_peers import LimitPeers
from timerd.services.regulation.permit_wire import (
    LoanReply,
    labels_in,
    limit_message,
    reply_in,
    reply_message,
    statement_in,
    statement_message,
)

log = logging.getLogger(__name__)
# Who is asked may name another one, and that one is asked then.
MOST_HOPS = 3
# What does not answer is not waited for longer before the others have their turn.
MOST_WAIT_S = 1.0
STORE_ERRORS = (StoreUnavailable, StoreUnknown, NotUnderstood)


class Borrowing:
    """Of one instance. `granted` hears of limits by which more may be sent."""

    def __init__(
        self,
        lent: LentLimits,
        asking: LimitPeers,
        membership: Membership,
        runner: Performs,
        boot_ms: Callable[[], float],
        granted: Callable[[LimitLabels], None],
    ) -> None:
        self.lent = lent
        self._asking = asking
        self._membership = membership
        self._boot_ms = boot_ms
        self._granted = granted
        self.keepers: LimitKeepers = Keepers(LimitRegister(lent), membership, runner, boot_ms, self._ask_state)
        # As they were named last: (name, token).
        self._known: dict[LimitLabels, tuple[str, int]] = {}
        self._calls: dict[LimitLabels, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None
        # More was asked for in vain: it is asked for again with the next step.
        self._in_vain: set[LimitLabels] = set()

    def begin(self) -> None:
        self._membership.on_lapse(self._lapse)
        self.lent.on_want(self._wanted)

    async def step(self) -> None:
        """What is due now."""
        self._in_vain.clear()
        if self._keeping is None or self._keeping.done():
            self._keeping = begin(surely(self.keepers.step()), "borrowing")
        for labels in self.lent.in_use():
            self._call(labels)
        await asyncio.wait([self._keeping, *self._calls.values()], timeout=MOST_WAIT_S)

    async def leave(self) -> None:
        """Nothing is sent any more: what is free goes back, and others keep what this one has kept."""
        self.lent.leave()
        await asyncio.gather(*(self._borrow(labels) for labels in list(self.lent.borrowed)))
        await self.keepers.leave()

    # -- what others ask ------------------------------------------------------------------------------------------

    async def borrow(self, request: pb.BorrowRequest) -> pb.BorrowResponse:
        said = statement_in(request.statement) if request.HasField("statement") else None
        labels = labels_in(request.limit)
        try:
            reply = await self.keepers.asked(labels, request.name, request.incarnation, request.token, said)
        except STORE_ERRORS as error:
            log.info("the keeper of %s cannot be found now: %s", labels, error)
            reply = LoanReply()
        return reply_message(reply)

    def state(self, request: pb.StateRequest) -> pb.StateResponse:
        """P2: to a keeper, which may be a new one."""
        labels, response = labels_in(request.limit), pb.StateResponse(incarnation=self._membership.incarnation)
        said = self._stated(labels, request.keeper, request.token, request.round)
        if said is not None:
            response.statement.CopyFrom(statement_message(said))
        return response

    # -- inside ---------------------------------------------------------------------------------------------------

    def _lapse(self) -> None:
        self.lent.lapse()
        self.keepers.lapse()
        self._known.clear()

    def _stated(self, labels: LimitLabels, keeper: str, token: int, heard_round: int) -> Stated | None:
        borrowed = self.lent.of(labels)
        said = borrowed.state(token, self.lent.hands(labels), self._boot_ms(), heard_round)
        if said is not None:
            self._known[labels] = keeper, token
        return said

    def _wanted(self, labels: LimitLabels) -> None:
        """At once, but not for each task that comes due while there is none."""
        if labels not in self._in_vain:
            self._call(labels)

    def _call(self, labels: LimitLabels) -> None:
        """One at a time; what is wanted meanwhile is asked for with the next one."""
        if labels not in self._calls:
            task = self._calls[labels] = begin(self._borrow(labels), "borrowing")
            task.add_done_callback(lambda _: self._calls.pop(labels, None))

    async def _borrow(self, labels: LimitLabels) -> None:
        try:
            for _ in range(MOST_HOPS):
                if await self._ask(labels):
                    return
        except STORE_ERRORS as error:
            log.info("the keeper of %s cannot be found now: %s", labels, error)
        self._known.pop(labels, None)

    async def _ask(self, labels: LimitLabels) -> bool:
        """Whether it was heard, or nobody can hear it now."""
        keeper, token = self._known.get(labels, ("", 0))
        said, borrowed = None, self.lent.of(labels)
        if keeper and keeper != self._membership.name and not self._membership.address_of(keeper):
            keeper, token = "", 0
        if keeper:
            said = borrowed.state(token, self.lent.hands(labels), self._boot_ms())
        asked = keeper if said is not None else self.keepers.place_of(labels)
        reply = await self._answer(asked, labels, token, said)
        if reply is None or not reply.keeper:
            self._known.pop(labels, None)
            return True
        self._known[labels] = reply.keeper, reply.token
        if said is None or reply.grant is None:
            return False
        if borrowed.granted(said.seq, reply.token, reply.grant):
            self._granted(labels)
        else:
            self._in_vain.add(labels)
        return True

    async def _answer(
        self, asked: str, labels: LimitLabels, token: int, said: Stated | None
    ) -> LoanReply[Grant] | None:
        """None: none in time."""
        me, incarnation = self._membership.name, self._membership.incarnation
        if asked == me:
            return await self.keepers.asked(labels, me, incarnation, token, said)
        request = pb.BorrowRequest(limit=limit_message(labels), name=me, incarnation=incarnation, token=token)
        if said is not None:
            request.statement.CopyFrom(statement_message(said))
        response: pb.BorrowResponse | None = await self._asking(asked, "Borrow", request)
        return None if response is None else reply_in(response)

    async def _ask_state(
        self, name: str, labels: LimitLabels, token: int, heard_round: int
    ) -> tuple[int, Stated] | None:
        me = self._membership.name
        if name == me:
            own = self._stated(labels, me, token, heard_round)
            return None if own is None else (self._membership.incarnation, own)
        request = pb.StateRequest(limit=limit_message(labels), token=token, round=heard_round, keeper=me)
        response: pb.StateResponse | None = await self._asking(name, "State", request)
        if response is None or not response.HasField("statement"):
            return None
        return response.incarnation, statement_in(response.statement)
