"""The keeper of a limit lends its permits to the instances that send (rules P1, P2 and P5 of
docs/understand/protocol.md, model limits.pml).

It counts what each has stated, and what it has lent since. Deliveries of an instance that is gone, and those that have
moved from one instance to another, are `old`: taken, until no lease of theirs can go on, THEN all that live have stated
again, for one of them may have adopted a delivery. Of whom it never heard it does not know how much is old, and then it
lends nothing until that is over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from timerd.core.regulation.permits import Grant, Stated

# For the end of a lease to be heard of.
GRACE_MS = 1_000
# What does not go up evenly goes to others after so long.
TURN_MS = 1_000


@dataclass(slots=True)
class _Borrower:
    incarnation: int
    stated: Stated
    # What it has by that statement, and what it was lent in answer.
    lent: int

    @property
    def wants(self) -> int:
        """In all."""
        return max(self.lent, self.stated.permits + self.stated.want)


class Left(NamedTuple):
    """What a keeper that went in peace says to the next one: what was old, and who may have permits: instance ->
    (incarnation, moved)."""

    old: int = 0
    borrowers: Mapping[str, tuple[int, int]] = {}


@dataclass(slots=True)
class _Doubt:
    """What nobody can state. `until_ms`: no lease of it goes on then; infinite: nothing is in doubt. `is_over`: all are
    to state again."""

    old: int = 0
    unknown: bool = False
    until_ms: float = math.inf
    is_over: bool = False


class PermitKeeper:
    """Of one limit. `lease_ms`: the longest lease of a delivery under it, as it is stored. `left`: by the one before;
    None: it went without a word, or there was none (`is_first`). Times are of a clock that is never set."""

    def __init__(self, token: int, lease_ms: int, now_ms: float, left: Left | None, *, is_first: bool = False) -> None:
        self.token = token
        self.lease_ms = lease_ms
        self.round = 1
        self._living: Mapping[str, int] = {}
        self._borrowers: dict[str, _Borrower] = {}
        self._expected = dict(left.borrowers) if left is not None else {}
        self._doubt = _Doubt()
        if left is not None and left.old:
            self._take_old(left.old, now_ms)
        elif left is None and not is_first:
            self._take_unknown(now_ms)

    def lives(self, living: Mapping[str, int], now_ms: float) -> None:
        """Instance -> incarnation. The others are gone."""
        before = {name: self._before(name) for name in {*self._expected, *self._borrowers, *self._living}}
        self._living = living
        for name, incarnation in before.items():
            if living.get(name) != incarnation:
                self._gone(name, incarnation, now_ms)

    def step(self, now_ms: float) -> None:
        """Leases are over: who lives is to say what it has."""
        if now_ms >= self._doubt.until_ms and not self._doubt.is_over:
            self._doubt.is_over = True
            self.round += 1
        self._settle()

    def is_due(self, now_ms: float) -> bool:
        """Whether `step` is about to ask all that live: who they are should be known."""
        return now_ms >= self._doubt.until_ms and not self._doubt.is_over

    def unheard(self) -> list[str]:
        """Who lives and has not stated what it has, in this round."""
        return [name for name, incarnation in self._living.items() if not self._is_heard(name, incarnation)]

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
        most = self._share(name, limit, now_ms)
        room = min(borrower.stated.want, self.free(limit), most - borrower.lent)
        is_known = self._living.get(name) == borrower.incarnation and borrower.stated.lease_ms <= self.lease_ms
        granted = max(0, int(room)) if is_known else 0
        borrower.lent += granted
        return Grant(granted, most, self.round, self.lease_ms)

    def free(self, limit: int) -> int:
        """P1: what nobody has, where that is known."""
        if self._doubt.unknown or self.unheard() or not self._living:
            return 0
        return limit - self.lent - self._doubt.old

    @property
    def lent(self) -> int:
        return sum(each.lent for each in self._borrowers.values())

    @property
    def old(self) -> int:
        """What is taken by deliveries of instances that are gone."""
        return self._doubt.old

    def longest_lease_ms(self) -> int:
        """As far as it was stated."""
        return max((each.stated.lease_ms for each in self._borrowers.values()), default=0)

    def left(self, leaving: str = "") -> Left | None:
        """What the next keeper may rely on; `leaving`: an instance that goes, having stated what it has. None: on
        nothing."""
        if self._doubt.unknown or self.unheard():
            return None
        old = self.old + (self._borrowers[leaving].lent if leaving in self._borrowers else 0)
        stay = {name: each for name, each in self._borrowers.items() if name != leaving}
        return Left(old, {name: (each.incarnation, each.stated.moved) for name, each in stay.items()})

    # -- inside ---------------------------------------------------------------------------------------------------

    def _before(self, name: str) -> int:
        """Which incarnation may have permits; 0: none."""
        if name in self._borrowers:
            return self._borrowers[name].incarnation
        return self._expected[name][0] if name in self._expected else self._living.get(name, 0)

    def _is_heard(self, name: str, incarnation: int) -> bool:
        known = self._borrowers.get(name)
        return known is not None and known.incarnation == incarnation and known.stated.round == self.round

    def _moved_before(self, name: str, incarnation: int, said: Stated) -> int:
        known = self._borrowers.get(name)
        if known is not None:
            return known.stated.moved
        expected, moved = self._expected.pop(name, (0, 0))
        return moved if expected == incarnation else said.moved

    def _gone(self, name: str, incarnation: int, now_ms: float) -> None:
        """P5. Of one that has not stated in this round nobody knows what it has adopted since."""
        is_heard = self._is_heard(name, incarnation)
        self._expected.pop(name, None)
        known = self._borrowers.pop(name, None)
        self._take_old(known.lent if known is not None else 0, now_ms)
        if not is_heard:
            self._take_unknown(now_ms)

    def _take_old(self, deliveries: int, now_ms: float) -> None:
        self._doubt.old += deliveries
        self._doubt.until_ms, self._doubt.is_over = now_ms + self.lease_ms + GRACE_MS, False

    def _take_unknown(self, now_ms: float) -> None:
        self._take_old(0, now_ms)
        self._doubt.unknown = True

    def _settle(self) -> None:
        """What was old is free, or is somebody's who has stated it."""
        if self._doubt.is_over and not self.unheard():
            self._doubt = _Doubt()

    def _share(self, name: str, limit: int, now_ms: float) -> float:
        """What it may have now, where all together want more than there is: what each wants, or the same as the others
        that want more. What does not go up evenly is had in turn."""
        wants = {each: borrower.wants for each, borrower in sorted(self._borrowers.items()) if borrower.wants}
        room = max(0, limit - self._doubt.old)
        if sum(wants.values()) <= room:
            return limit
        at = int(now_ms // TURN_MS) % max(1, len(wants))
        hungry, shares = [*wants][at:] + [*wants][:at], dict.fromkeys(wants, 0)
        while room and hungry:
            even = max(1, room // len(hungry))
            for each in hungry:
                given = min(even, wants[each] - shares[each], room)
                shares[each] += given
                room -= given
            hungry = [each for each in hungry if shares[each] < wants[each]]
        return shares.get(name, 0)
