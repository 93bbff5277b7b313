"""The register of a home of limit keys: who keeps it, and what its keeper leaves to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from timerd.core.regulation.key_permit_keeper import KeyPermitKeeper, KeysLeft
from timerd.core.regulation.key_permits import KeysGrant, KeysStated
from timerd.core.regulation.key_token_keeper import KeyTokenKeeper
from timerd.core.regulation.lent_keys import LentKeys
from timerd.model.keeping import HOME_OF_NOBODY, HomeKeeping, LimitedKey, LimitLabels, home_key
from timerd.model.registers import RegisterKey

# A register has no room for more: then the next keeper waits as for one that was killed.
MOST_LEFT = 1_000


def home_left_with(known: HomeKeeping, left: KeysLeft | None) -> HomeKeeping:
    """Nobody keeps it, and what is known of it is there for the next one."""
    free = replace(known, holder="", incarnation=0)
    if left is None or len(left.old) > MOST_LEFT:
        return free
    return replace(free, is_left=True, old=_stored(left.old), borrowers=tuple(sorted(left.borrowers.items())))


def home_left_by(known: HomeKeeping) -> KeysLeft | None:
    """What the keeper before has left word of."""
    if not known.is_left:
        return None
    old = {LimitedKey(LimitLabels(*labels), key): deliveries for *labels, key, deliveries in known.old}
    return KeysLeft(old, dict(known.borrowers))


def _stored(old: Mapping[LimitedKey, int]) -> tuple[tuple[str, str, str, str, int], ...]:
    return tuple(sorted((*key.limit, key.limit_key, deliveries) for key, deliveries in old.items()))


@dataclass(frozen=True, slots=True)
class HomeBooks:
    """Of the keeper of a home: the permits of its keys, and the tokens of their rates."""

    permits: KeyPermitKeeper
    tokens: KeyTokenKeeper


class HomeRegister:
    """Where it stands who keeps a home. `lent`: what this instance knows of limit keys."""

    nobody = HOME_OF_NOBODY

    def __init__(self, lent: LentKeys) -> None:
        self._lent = lent

    def key(self, home: int) -> RegisterKey:
        return home_key(home)

    def lease_ms(self, _: int) -> int:
        return self._lent.lease_ms

    def books(self, known: HomeKeeping, taken: HomeKeeping, now_ms: float) -> HomeBooks:
        is_first = known.token == 0
        permits = KeyPermitKeeper(taken.token, taken.lease_ms, now_ms, home_left_by(known), is_first=is_first)
        return HomeBooks(permits, KeyTokenKeeper(int(now_ms), is_first=is_first))

    def lend(self, _: int, books: HomeBooks, name: str, said: KeysStated, now_ms: float) -> KeysGrant:
        return books.permits.lend(name, said, self._lent.limits.most_of, now_ms)

    def left(self, kept: HomeKeeping, books: HomeBooks, leaving: str) -> HomeKeeping:
        return home_left_with(kept, books.permits.left(leaving))
