"""The keeper of a limit lends its permits to the instances that send (rules P1, P2 and P5 of
docs/understand/protocol.md, model limits.pml).

It counts what each has stated, and what it has lent since. Deliveries of an instance that is gone, and those that have
moved from one instance to another, are `old`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from timerd.core.regulation.lender import Lender
from timerd.core.regulation.lent_shares import share_of
from timerd.core.regulation.permits import Grant, Stated


@dataclass(slots=True)
class _Borrower:
    incarnation: int
    stated: Stated
    # What it has by that statement, and what it was lent in answer.
    lent: int

    @property
    def round(self) -> int:
        return self.stated.round

    @property
    def lease_ms(self) -> int:
        return self.stated.lease_ms

    @property
    def wants(self) -> int:
        """In all."""
        return max(self.lent, self.stated.permits + self.stated.want)


class Left(NamedTuple):
    """What a keeper that went in peace says to the next one: what was old, and who may have permits: instance ->
    (incarnation, moved)."""

    old: int = 0
    borrowers: Mapping[str, tuple[int, int]] = {}


class PermitKeeper(Lender[_Borrower, Stated]):
    """Of one limit. `left`: by the keeper before; None: it went without a word, or there was none (`is_first`)."""

    def __init__(self, token: int, lease_ms: int, now_ms: float, left: Left | None, *, is_first: bool = False) -> None:
        borrowers = left.borrowers if left is not None else {}
        super().__init__(token, lease_ms, {name: incarnation for name, (incarnation, _) in borrowers.items()})
        # How many deliveries of each had moved when the keeper before left.
        self._moved = {name: moved for name, (_, moved) in borrowers.items()}
        # What is taken by deliveries of instances that are gone.
        self.old = 0
        if left is not None and left.old:
            self._take_old(left.old, now_ms)
        elif left is None and not is_first:
            self._take_unknown(now_ms)

    def stated(self, name: str, incarnation: int, said: Stated, now_ms: float) -> bool:
        """False: it has said something later."""
        if (before := self._before(name)) not in (0, incarnation):
            self._gone(name, before, now_ms)
        known = self._borrowers.get(name)
        if known is not None and said.seq <= known.stated.seq:
            return False
        moved = said.moved - self._moved_before(name, incarnation, said)
        if moved > 0:
            self._take_old(moved, now_ms)
        self._borrowers[name] = _Borrower(incarnation, said, said.permits)
        self._settle()
        return True

    def lend(self, name: str, limit: int, now_ms: float) -> Grant:
        """In answer to what it has just stated."""
        borrower = self._borrowers[name]
        wanted = {each: other.wants for each, other in self._borrowers.items()}
        share = share_of(name, wanted, max(0, limit - self.old), now_ms)
        most = limit if share is None else share
        room = min(borrower.stated.want, self.free(limit), most - borrower.lent)
        is_known = self._living.get(name) == borrower.incarnation and borrower.stated.lease_ms <= self.lease_ms
        granted = max(0, int(room)) if is_known else 0
        borrower.lent += granted
        return Grant(granted, most, self.round, self.lease_ms)

    def free(self, limit: int) -> int:
        """P1: what nobody has, where that is known."""
        return 0 if self._is_shut() else limit - self.lent - self.old

    @property
    def lent(self) -> int:
        return sum(each.lent for each in self._borrowers.values())

    def left(self, leaving: str = "") -> Left | None:
        """What the next keeper may rely on; `leaving`: an instance that goes, having stated what it has. None: on
        nothing."""
        if self._doubt.unknown or self.unheard():
            return None
        old = self.old + (self._borrowers[leaving].lent if leaving in self._borrowers else 0)
        stay = {name: each for name, each in self._borrowers.items() if name != leaving}
        return Left(old, {name: (each.incarnation, each.stated.moved) for name, each in stay.items()})

    # -- inside ---------------------------------------------------------------------------------------------------

    def _moved_before(self, name: str, incarnation: int, said: Stated) -> int:
        known = self._borrowers.get(name)
        if known is not None:
            return known.stated.moved
        expected = self._expected.pop(name, 0)
        return self._moved[name] if expected == incarnation else said.moved

    def _drop(self, name: str, now_ms: float) -> None:
        known = self._borrowers.pop(name, None)
        self._take_old(known.lent if known is not None else 0, now_ms)

    def _take_old(self, deliveries: int, now_ms: float) -> None:
        self.old += deliveries
        self._wait(now_ms)

    def _forget_old(self) -> None:
        self.old = 0
