"""The limits that this instance keeps: it lends their permits, and hands out the tokens of their rates, to all
instances, itself among them.

Who is asked for permits of a limit that nobody keeps takes it, where it is placed for it. It keeps it as long as it
lives, also when others come, and gives it up in peace when it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from timerd.core.cluster import placed
from timerd.core.regulation import (
    LentLimits,
    LimitLabels,
    PermitKeeper,
    Stated,
    TokenKeeper,
    change_keeping,
    left_by,
    left_with,
    read_keeping,
    taken_by,
)
from timerd.model.keeping import Keeping, keeping_key
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.regulation.permit_wire import BorrowReply
from timerd.services.regulation.token_wire import DrawReply

# What an instance has of a limit, and its incarnation; None: no answer, or it has stated to a later keeper.
AskState = Callable[[str, LimitLabels, int, int], Awaitable[tuple[int, Stated] | None]]
UNKEPT = BorrowReply("", 0)


def place_of_keeper(labels: LimitLabels, living: Sequence[str]) -> str:
    """The instance that is to keep a limit. Empty: none lives, for the last one is leaving."""
    return placed(keeping_key(labels).name, living) if living else ""


@dataclass(slots=True)
class _KeptLimit:
    """As it stands in the register, and the books."""

    keeping: Keeping
    keeper: PermitKeeper
    tokens: TokenKeeper


class Keepers:
    """Of one instance. `boot_ms`: a clock that is never set. `ask_state` asks another instance."""

    def __init__(
        self,
        lent: LentLimits,
        membership: Membership,
        runner: Performs,
        boot_ms: Callable[[], float],
        ask_state: AskState,
    ) -> None:
        self._lent = lent
        self._membership = membership
        self._runner = runner
        self._boot_ms = boot_ms
        self._ask_state = ask_state
        self._kept: dict[LimitLabels, _KeptLimit] = {}
        self._taking: dict[LimitLabels, asyncio.Lock] = {}
        self._is_leaving = False

    def lapse(self) -> None:
        """The lease was lost: others may keep them by now."""
        self._kept.clear()

    def keeper_of(self, labels: LimitLabels) -> PermitKeeper | None:
        """None: another instance keeps it, or nobody does."""
        kept = self._kept.get(labels)
        return kept.keeper if kept is not None else None

    async def asked(
        self, labels: LimitLabels, name: str, incarnation: int, token: int, said: Stated | None
    ) -> BorrowReply:
        """For permits. Raises StoreUnavailable, StoreUnknown."""
        kept = self._kept.get(labels)
        if kept is None:
            reply = await self._find(labels)
            kept = self._kept.get(labels)
            if kept is None:
                return reply
        keeper = kept.keeper
        own = BorrowReply(self._membership.name, keeper.token)
        if said is None or token != keeper.token:
            return own
        if self._living().get(name) != incarnation:
            await self._membership.refresh()
        now_ms = self._boot_ms()
        keeper.lives(self._living(), now_ms)
        limit = self._lent.limit_of(labels)
        if not keeper.stated(name, incarnation, said, now_ms):
            return own
        most = limit.max_in_hand if limit is not None else 0
        return own._replace(grant=keeper.lend(name, most, now_ms))

    async def drawn(self, labels: LimitLabels, name: str, want: int, held_for_ms: int) -> DrawReply:
        """Tokens of its rate. Raises StoreUnavailable, StoreUnknown."""
        if labels not in self._kept:
            found = await self._find(labels)
            if labels not in self._kept:
                return DrawReply(found.keeper)
        tokens, now_ms = self._kept[labels].tokens, self._boot_ms()
        if not self._membership.trust.is_trusted(now_ms):
            # T3: another one may keep it by now.
            return DrawReply("")
        if held_for_ms:
            tokens.hold(held_for_ms, int(now_ms))
        return DrawReply(self._membership.name, tokens.draw(name, want, self._lent.limit_of(labels), int(now_ms)))

    async def step(self) -> None:
        """Looks who lives, and asks those that have not said what they have."""
        await asyncio.gather(*(self._step(labels, kept) for labels, kept in list(self._kept.items())))

    async def leave(self) -> None:
        """Others may keep what this one has kept. It has stated what it has."""
        self._is_leaving = True
        for labels, kept in list(self._kept.items()):
            del self._kept[labels]
            left = kept.keeper.left(self._membership.name)
            await drive(change_keeping(labels, kept.keeping, left_with(kept.keeping, left)), self._runner)

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _step(self, labels: LimitLabels, kept: _KeptLimit) -> None:
        keeper = kept.keeper
        if keeper.is_due(self._boot_ms()):
            await self._membership.refresh()
        keeper.lives(self._living(), self._boot_ms())
        keeper.step(self._boot_ms())
        await asyncio.gather(*(self._hear(labels, keeper, name) for name in keeper.unheard()))
        longest_ms = keeper.longest_lease_ms()
        if longest_ms > keeper.lease_ms:
            wanted = replace(kept.keeping, lease_ms=longest_ms)
            if not await drive(change_keeping(labels, kept.keeping, wanted), self._runner):
                self._kept.pop(labels, None)
            else:
                kept.keeping, keeper.lease_ms = wanted, longest_ms

    async def _hear(self, labels: LimitLabels, keeper: PermitKeeper, name: str) -> None:
        found = await self._ask_state(name, labels, keeper.token, keeper.round)
        if found is not None:
            keeper.stated(name, *found, self._boot_ms())

    async def _find(self, labels: LimitLabels) -> BorrowReply:
        """Who keeps it: this instance, where nobody else does and it is placed for it."""
        async with self._taking.setdefault(labels, asyncio.Lock()):
            if (kept := self._kept.get(labels)) is not None:
                return BorrowReply(self._membership.name, kept.keeping.token)
            known = await drive(read_keeping(labels), self._runner)
            await self._membership.confirm(known)
            if not self._membership.may_take(known):
                return BorrowReply(known.holder, known.token)
            if self._is_leaving or place_of_keeper(labels, self._membership.live()) != self._membership.name:
                return UNKEPT
            return await self._take(labels, known)

    async def _take(self, labels: LimitLabels, known: Keeping) -> BorrowReply:
        await self._membership.refresh()
        name, incarnation = self._membership.name, self._membership.incarnation
        wanted = taken_by(known, name, incarnation, self._lent.hands(labels).lease_ms)
        if not await drive(change_keeping(labels, known, wanted), self._runner):
            return UNKEPT
        if self._membership.incarnation != incarnation:
            return UNKEPT
        now_ms = self._boot_ms()
        keeper = PermitKeeper(wanted.token, wanted.lease_ms, now_ms, left_by(known), is_first=known.token == 0)
        keeper.lives(self._living(), now_ms)
        tokens = TokenKeeper(int(now_ms), is_first=known.token == 0)
        kept = self._kept[labels] = _KeptLimit(wanted, keeper, tokens)
        await self._step(labels, kept)
        return BorrowReply(name, wanted.token)

    def _living(self) -> Mapping[str, int]:
        """Instance -> incarnation."""
        return self._membership.incarnations()
