"""The register of a limit: who keeps it, and what its keeper leaves to the next one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from timerd.core.regulation.lent_limits import LentLimits
from timerd.core.regulation.permit_keeper import Left, PermitKeeper
from timerd.core.regulation.permits import Grant, Stated
from timerd.core.regulation.token_keeper import TokenKeeper
from timerd.model.keeping import NOBODY, Keeping, LimitLabels, keeping_key
from timerd.model.registers import RegisterKey


def left_with(known: Keeping, left: Left | None) -> Keeping:
    """Nobody keeps it, and what is known of it is there for the next one."""
    free = replace(known, holder="", incarnation=0)
    if left is None:
        return free
    borrowers = tuple((name, *each) for name, each in sorted(left.borrowers.items()))
    return replace(free, is_left=True, old=left.old, borrowers=borrowers)


def left_by(known: Keeping) -> Left | None:
    """What the keeper before has left word of."""
    if not known.is_left:
        return None
    return Left(known.old, {name: (incarnation, moved) for name, incarnation, moved in known.borrowers})


@dataclass(frozen=True, slots=True)
class LimitBooks:
    """Of the keeper of a limit: its permits, and the tokens of its rate."""

    permits: PermitKeeper
    tokens: TokenKeeper


class LimitRegister:
    """Where it stands who keeps a limit. `lent`: what this instance knows of limits."""

    nobody = NOBODY

    def __init__(self, lent: LentLimits) -> None:
        self._lent = lent

    def key(self, labels: LimitLabels) -> RegisterKey:
        return keeping_key(labels)

    def lease_ms(self, labels: LimitLabels) -> int:
        return self._lent.hands(labels).lease_ms

    def books(self, known: Keeping, taken: Keeping, now_ms: float) -> LimitBooks:
        is_first = known.token == 0
        permits = PermitKeeper(taken.token, taken.lease_ms, now_ms, left_by(known), is_first=is_first)
        return LimitBooks(permits, TokenKeeper(int(now_ms), is_first=is_first))

    def lend(self, labels: LimitLabels, books: LimitBooks, name: str, _: Stated, now_ms: float) -> Grant:
        limit = self._lent.limit_of(labels)
        return books.permits.lend(name, limit.max_in_hand if limit is not None else 0, now_ms)

    def left(self, kept: Keeping, books: LimitBooks, leaving: str) -> Keeping:
        return left_with(kept, books.permits.left(leaving))
