"""The homes of limit keys that this instance keeps: it lends the permits of their keys to all instances, itself among
them.

As `Keepers` does with a limit: who is asked for a home that nobody keeps takes it, where it is placed for it, and gives
it up in peace when it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from timerd.core.cluster import placed
from timerd.core.regulation import (
    KeyPermitKeeper,
    KeysStated,
    LentKeys,
    change_home,
    home_left_by,
    home_left_with,
    home_taken_by,
    read_home,
)
from timerd.model.keeping import HomeKeeping, home_key
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.regulation.key_wire import KeysReply

# What an instance has of a home, and its incarnation; None: no answer, or it has stated to a later keeper.
AskKeys = Callable[[str, int, int, int], Awaitable[tuple[int, KeysStated] | None]]
UNKEPT = KeysReply("", 0)


def place_of_home(home: int, living: Sequence[str]) -> str:
    """The instance that is to keep a home. Empty: none lives, for the last one is leaving."""
    return placed(home_key(home).name, living) if living else ""


@dataclass(slots=True)
class _KeptHome:
    """As it stands in the register, and the books."""

    keeping: HomeKeeping
    keeper: KeyPermitKeeper


class KeyKeepers:
    """Of one instance. `boot_ms`: a clock that is never set. `ask_state` asks another instance."""

    def __init__(
        self,
        lent: LentKeys,
        membership: Membership,
        runner: Performs,
        boot_ms: Callable[[], float],
        ask_state: AskKeys,
    ) -> None:
        self._lent = lent
        self._membership = membership
        self._runner = runner
        self._boot_ms = boot_ms
        self._ask_state = ask_state
        self._kept: dict[int, _KeptHome] = {}
        self._taking: dict[int, asyncio.Lock] = {}
        self._is_leaving = False

    def lapse(self) -> None:
        """The lease was lost: others may keep them by now."""
        self._kept.clear()

    def keeper_of(self, home: int) -> KeyPermitKeeper | None:
        """None: another instance keeps it, or nobody does."""
        kept = self._kept.get(home)
        return kept.keeper if kept is not None else None

    async def asked(self, home: int, name: str, incarnation: int, token: int, said: KeysStated | None) -> KeysReply:
        """For permits. Raises StoreUnavailable, StoreUnknown."""
        kept = self._kept.get(home)
        if kept is None:
            reply = await self._find(home)
            kept = self._kept.get(home)
            if kept is None:
                return reply
        keeper = kept.keeper
        own = KeysReply(self._membership.name, keeper.token)
        if said is None or token != keeper.token:
            return own
        if self._living().get(name) != incarnation:
            await self._membership.refresh()
        now_ms = self._boot_ms()
        keeper.lives(self._living(), now_ms)
        if not keeper.stated(name, incarnation, said, now_ms):
            return own
        return own._replace(grant=keeper.lend(name, said, self._lent.most_of, now_ms))

    async def step(self) -> None:
        """Looks who lives, and asks those that have not said what they have."""
        await asyncio.gather(*(self._step(home, kept) for home, kept in list(self._kept.items())))

    async def leave(self) -> None:
        """Others may keep what this one has kept. It has stated what it has."""
        self._is_leaving = True
        for home, kept in list(self._kept.items()):
            del self._kept[home]
            left = kept.keeper.left(self._membership.name)
            await drive(change_home(home, kept.keeping, home_left_with(kept.keeping, left)), self._runner)

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _step(self, home: int, kept: _KeptHome) -> None:
        keeper = kept.keeper
        if keeper.is_due(self._boot_ms()):
            await self._membership.refresh()
        keeper.lives(self._living(), self._boot_ms())
        keeper.step(self._boot_ms())
        await asyncio.gather(*(self._hear(home, keeper, name) for name in keeper.unheard()))
        longest_ms = keeper.longest_lease_ms()
        if longest_ms > keeper.lease_ms:
            wanted = replace(kept.keeping, lease_ms=longest_ms)
            if not await drive(change_home(home, kept.keeping, wanted), self._runner):
                self._kept.pop(home, None)
            else:
                kept.keeping, keeper.lease_ms = wanted, longest_ms

    async def _hear(self, home: int, keeper: KeyPermitKeeper, name: str) -> None:
        found = await self._ask_state(name, home, keeper.token, keeper.round)
        if found is not None:
            keeper.stated(name, *found, self._boot_ms())

    async def _find(self, home: int) -> KeysReply:
        """Who keeps it: this instance, where nobody else does and it is placed for it."""
        async with self._taking.setdefault(home, asyncio.Lock()):
            if (kept := self._kept.get(home)) is not None:
                return KeysReply(self._membership.name, kept.keeping.token)
            known = await drive(read_home(home), self._runner)
            await self._membership.confirm(known)
            if not self._membership.may_take(known):
                return KeysReply(known.holder, known.token)
            if self._is_leaving or place_of_home(home, self._membership.live()) != self._membership.name:
                return UNKEPT
            return await self._take(home, known)

    async def _take(self, home: int, known: HomeKeeping) -> KeysReply:
        await self._membership.refresh()
        name, incarnation = self._membership.name, self._membership.incarnation
        wanted = home_taken_by(known, name, incarnation, self._lent.lease_ms)
        if not await drive(change_home(home, known, wanted), self._runner):
            return UNKEPT
        if self._membership.incarnation != incarnation:
            return UNKEPT
        now_ms = self._boot_ms()
        keeper = KeyPermitKeeper(wanted.token, wanted.lease_ms, now_ms, home_left_by(known), is_first=known.token == 0)
        keeper.lives(self._living(), now_ms)
        kept = self._kept[home] = _KeptHome(wanted, keeper)
        await self._step(home, kept)
        return KeysReply(name, wanted.token)

    def _living(self) -> Mapping[str, int]:
        """Instance -> incarnation."""
        return self._membership.incarnations()
