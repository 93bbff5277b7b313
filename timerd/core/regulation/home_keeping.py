"""How an instance becomes the keeper of a home of limit keys, and gives it up, at the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.core.regulation.key_permit_keeper import KeysLeft
from timerd.model.keeping import HOME_OF_NOBODY, HomeKeeping, LimitedKey, LimitLabels, home_key
from timerd.model.storage import Cas, CasResult, CasStatus

# A register has no room for more: then the next keeper waits as for one that was killed.
MOST_LEFT = 1_000


def read_home(home: int) -> Procedure[HomeKeeping]:
    """Raises NotUnderstood."""
    stored: bytes | None = yield ReadRegister(home_key(home))
    return HOME_OF_NOBODY if stored is None else HomeKeeping.from_bytes(stored)


def change_home(home: int, known: HomeKeeping, wanted: HomeKeeping) -> Procedure[bool]:
    """False: it is another one by now."""
    expected = known.to_bytes() if known.token else None
    result: CasResult = yield TryCas(Cas(home_key(home), expected, wanted.to_bytes()))
    return result.status is CasStatus.APPLIED


def home_taken_by(known: HomeKeeping, name: str, incarnation: int, lease_ms: int) -> HomeKeeping:
    """It is the keeper after this one."""
    return HomeKeeping(known.token + 1, name, incarnation, max(known.lease_ms, lease_ms), kept=known.kept)


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
