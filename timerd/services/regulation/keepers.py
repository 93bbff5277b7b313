"""What this instance keeps, of limits and of homes of limit keys: it lends their permits to all instances, itself among
them.

Who is asked for permits of what nobody keeps takes it, where it is placed for it. It keeps it as long as it lives, also
when others come, and gives it up in peace when it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from timerd.core.cluster import placed
from timerd.core.regulation import (
    AnyKeeping,
    AnyStated,
    Grant,
    HomeBooks,
    KeysGrant,
    KeysStated,
    Lender,
    LimitBooks,
    LimitLabels,
    Stated,
    change_keeping,
    read_keeping,
    taken_by,
    with_lease,
)
from timerd.model.keeping import HomeKeeping, Keeping
from timerd.model.registers import RegisterKey
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.regulation.permit_wire import AnyGrant, LoanReply


class Books(Protocol):
    """Of a keeper."""

    @property
    def permits(self) -> Lender[Any, Any]: ...


Lent = TypeVar("Lent", bound=Hashable)
AnyBooks = TypeVar("AnyBooks", bound=Books)
Lent_contra = TypeVar("Lent_contra", contravariant=True)
Stated_contra = TypeVar("Stated_contra", contravariant=True)
Grant_co = TypeVar("Grant_co", covariant=True)


class KeepingRegister(Protocol[Lent_contra, AnyKeeping, AnyBooks, Stated_contra, Grant_co]):
    """Where it stands who keeps what is lent, and by which books."""

    @property
    def nobody(self) -> AnyKeeping: ...

    def key(self, lent: Lent_contra, /) -> RegisterKey: ...

    def lease_ms(self, lent: Lent_contra, /) -> int:
        """The longest one of a worker here."""
        ...

    def books(self, known: AnyKeeping, taken: AnyKeeping, now_ms: float, /) -> AnyBooks:
        """With which who has taken it begins, by what the keeper before has left."""
        ...

    def lend(self, lent: Lent_contra, books: AnyBooks, name: str, said: Stated_contra, now_ms: float, /) -> Grant_co:
        """In answer to what an instance has just stated."""
        ...

    def left(self, kept: AnyKeeping, books: AnyBooks, leaving: str, /) -> AnyKeeping:
        """What stands there for the next keeper."""
        ...


@dataclass(slots=True)
class _Tenure(Generic[AnyKeeping, AnyBooks]):
    """As it stands in the register, and the books."""

    keeping: AnyKeeping
    books: AnyBooks


class Keepers(Generic[Lent, AnyKeeping, AnyBooks, AnyStated, AnyGrant]):
    """Of one instance. `boot_ms`: a clock that is never set. `ask_state` asks an instance what it has of something, by
    token and round, and for its incarnation; None: no answer, or it has stated to a later keeper."""

    def __init__(
        self,
        register: KeepingRegister[Lent, AnyKeeping, AnyBooks, AnyStated, AnyGrant],
        membership: Membership,
        runner: Performs,
        boot_ms: Callable[[], float],
        ask_state: Callable[[str, Lent, int, int], Awaitable[tuple[int, AnyStated] | None]],
    ) -> None:
        self._register: KeepingRegister[Lent, AnyKeeping, AnyBooks, AnyStated, AnyGrant] = register
        self._membership = membership
        self._runner = runner
        self._boot_ms = boot_ms
        self._ask_state = ask_state
        self._kept: dict[Lent, _Tenure[AnyKeeping, AnyBooks]] = {}
        self._taking: dict[Lent, asyncio.Lock] = {}
        self._is_leaving = False

    def lapse(self) -> None:
        """The lease was lost: others may keep them by now."""
        self._kept.clear()

    def place_of(self, lent: Lent) -> str:
        """The instance that is to keep it. Empty: none lives, for the last one is leaving."""
        living = self._membership.live()
        return placed(self._register.key(lent).name, living) if living else ""

    def books_of(self, lent: Lent) -> AnyBooks | None:
        """None: another instance keeps it, or nobody does."""
        kept = self._kept.get(lent)
        return kept.books if kept is not None else None

    async def found(self, lent: Lent) -> AnyBooks | LoanReply[AnyGrant]:
        """The books, where this instance keeps it, maybe from now on; else who does. Raises StoreUnavailable,
        StoreUnknown."""
        kept = self._kept.get(lent)
        if kept is None:
            reply = await self._find(lent)
            kept = self._kept.get(lent)
            if kept is None:
                return reply
        return kept.books

    async def asked(
        self, lent: Lent, name: str, incarnation: int, token: int, said: AnyStated | None
    ) -> LoanReply[AnyGrant]:
        """For permits. Raises StoreUnavailable, StoreUnknown."""
        books = await self.found(lent)
        if isinstance(books, LoanReply):
            return books
        permits = books.permits
        own = LoanReply[AnyGrant](self._membership.name, permits.token)
        if said is None or token != permits.token:
            return own
        if self._living().get(name) != incarnation:
            await self._membership.refresh()
        now_ms = self._boot_ms()
        permits.lives(self._living(), now_ms)
        if not permits.stated(name, incarnation, said, now_ms):
            return own
        return own._replace(grant=self._register.lend(lent, books, name, said, now_ms))

    async def step(self) -> None:
        """Looks who lives, and asks those that have not said what they have."""
        await asyncio.gather(*(self._step(lent, kept) for lent, kept in list(self._kept.items())))

    async def leave(self) -> None:
        """Others may keep what this one has kept. It has stated what it has."""
        self._is_leaving = True
        for lent, kept in list(self._kept.items()):
            del self._kept[lent]
            await self._change(lent, kept.keeping, self._register.left(kept.keeping, kept.books, self._membership.name))

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _step(self, lent: Lent, kept: _Tenure[AnyKeeping, AnyBooks]) -> None:
        permits = kept.books.permits
        if permits.is_due(self._boot_ms()):
            await self._membership.refresh()
        permits.lives(self._living(), self._boot_ms())
        permits.step(self._boot_ms())
        await asyncio.gather(*(self._hear(lent, permits, name) for name in permits.unheard()))
        longest_ms = permits.longest_lease_ms()
        if longest_ms > permits.lease_ms:
            wanted = with_lease(kept.keeping, longest_ms)
            if not await self._change(lent, kept.keeping, wanted):
                self._kept.pop(lent, None)
            else:
                kept.keeping, permits.lease_ms = wanted, longest_ms

    async def _hear(self, lent: Lent, permits: Lender[Any, AnyStated], name: str) -> None:
        found = await self._ask_state(name, lent, permits.token, permits.round)
        if found is not None:
            permits.stated(name, *found, self._boot_ms())

    async def _find(self, lent: Lent) -> LoanReply[AnyGrant]:
        """Who keeps it: this instance, where nobody else does and it is placed for it."""
        async with self._taking.setdefault(lent, asyncio.Lock()):
            if (kept := self._kept.get(lent)) is not None:
                return LoanReply(self._membership.name, kept.keeping.token)
            known = await drive(read_keeping(self._register.key(lent), self._register.nobody), self._runner)
            await self._membership.confirm(known)
            if not self._membership.may_take(known):
                return LoanReply(known.holder, known.token)
            if self._is_leaving or self.place_of(lent) != self._membership.name:
                return LoanReply()
            return await self._take(lent, known)

    async def _take(self, lent: Lent, known: AnyKeeping) -> LoanReply[AnyGrant]:
        await self._membership.refresh()
        name, incarnation = self._membership.name, self._membership.incarnation
        wanted = taken_by(known, name, incarnation, self._register.lease_ms(lent))
        if not await self._change(lent, known, wanted):
            return LoanReply()
        if self._membership.incarnation != incarnation:
            return LoanReply()
        now_ms = self._boot_ms()
        books = self._register.books(known, wanted, now_ms)
        books.permits.lives(self._living(), now_ms)
        kept = self._kept[lent] = _Tenure(wanted, books)
        await self._step(lent, kept)
        return LoanReply(name, wanted.token)

    async def _change(self, lent: Lent, known: AnyKeeping, wanted: AnyKeeping) -> bool:
        return await drive(change_keeping(self._register.key(lent), known, wanted), self._runner)

    def _living(self) -> Mapping[str, int]:
        """Instance -> incarnation."""
        return self._membership.incarnations()


LimitKeepers = Keepers[LimitLabels, Keeping, LimitBooks, Stated, Grant]
HomeKeepers = Keepers[int, HomeKeeping, HomeBooks, KeysStated, KeysGrant]
