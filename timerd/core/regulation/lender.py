"""What each keeper of permits goes by: who lives, who has said what it has, and when what dead ones had is free again
(rules P1, P2 and P5 of docs/understand/protocol.md).

What an instance had that is gone is `old`: taken, until no lease of it can go on, THEN all that live have stated again,
for one of them may have adopted a delivery. Of whom it never heard it does not know how much is old, and then it lends
nothing until that is over.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

# For the end of a lease to be heard of.
GRACE_MS = 1_000


class Borrower(Protocol):
    """One that has stated what it has, in that life and round; `lease_ms`: the longest lease of its workers."""

    @property
    def incarnation(self) -> int: ...

    @property
    def round(self) -> int: ...

    @property
    def lease_ms(self) -> int: ...


AnyBorrower = TypeVar("AnyBorrower", bound=Borrower)
AnyStated = TypeVar("AnyStated")


@dataclass(slots=True)
class Doubt:
    """What nobody can state: what is old, and whether that is all. `until_ms`: no lease of it goes on then; infinite:
    nothing is in doubt. `is_over`: all are to state again."""

    unknown: bool = False
    until_ms: float = math.inf
    is_over: bool = False


class Lender(ABC, Generic[AnyBorrower, AnyStated]):
    """`lease_ms`: the longest lease of a delivery under what it keeps, as it is stored. `expected`: instance ->
    incarnation, of those that may have permits by the keeper before. Times are of a clock that is never set."""

    def __init__(self, token: int, lease_ms: int, expected: Mapping[str, int]) -> None:
        self.token = token
        self.lease_ms = lease_ms
        self.round = 1
        self._living: Mapping[str, int] = {}
        self._borrowers: dict[str, AnyBorrower] = {}
        self._expected = dict(expected)
        self._doubt = Doubt()

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

    def longest_lease_ms(self) -> int:
        """As far as it was stated."""
        return max((each.lease_ms for each in self._borrowers.values()), default=0)

    @abstractmethod
    def stated(self, name: str, incarnation: int, said: AnyStated, now_ms: float) -> bool:
        """False: it does not count."""

    @abstractmethod
    def _drop(self, name: str, now_ms: float) -> None:
        """What it had, as far as it is known, is old."""

    @abstractmethod
    def _forget_old(self) -> None:
        """What was old is free, or is somebody's who has stated it."""

    def _is_shut(self) -> bool:
        """P1: nobody knows what is free."""
        return self._doubt.unknown or bool(self.unheard()) or not self._living

    def _before(self, name: str) -> int:
        """Which incarnation may have permits; 0: none."""
        if name in self._borrowers:
            return self._borrowers[name].incarnation
        return self._expected[name] if name in self._expected else self._living.get(name, 0)

    def _is_heard(self, name: str, incarnation: int) -> bool:
        known = self._borrowers.get(name)
        return known is not None and known.incarnation == incarnation and known.round == self.round

    def _gone(self, name: str, incarnation: int, now_ms: float) -> None:
        """P5. Of one that has not stated in this round nobody knows what it has adopted since."""
        is_heard = self._is_heard(name, incarnation)
        self._expected.pop(name, None)
        self._drop(name, now_ms)
        if not is_heard:
            self._take_unknown(now_ms)

    def _wait(self, now_ms: float) -> None:
        """For the leases of what is old, from now on."""
        self._doubt.until_ms, self._doubt.is_over = now_ms + self.lease_ms + GRACE_MS, False

    def _take_unknown(self, now_ms: float) -> None:
        self._wait(now_ms)
        self._doubt.unknown = True

    def _settle(self) -> None:
        if self._doubt.is_over and not self.unheard():
            self._doubt = Doubt()
            self._forget_old()
