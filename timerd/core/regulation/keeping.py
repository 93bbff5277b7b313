"""How an instance becomes the keeper of a limit, and gives it up, at the store."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.core.regulation.permit_keeper import Left
from timerd.model.keeping import NOBODY, Keeping, LimitLabels, keeping_key
from timerd.model.storage import Cas, CasResult, CasStatus


def read_keeping(labels: LimitLabels) -> Procedure[Keeping]:
    """Raises NotUnderstood."""
    stored: bytes | None = yield ReadRegister(keeping_key(labels))
    return NOBODY if stored is None else Keeping.from_bytes(stored)


def change_keeping(labels: LimitLabels, known: Keeping, wanted: Keeping) -> Procedure[bool]:
    """False: it is another one by now."""
    expected = known.to_bytes() if known.token else None
    result: CasResult = yield TryCas(Cas(keeping_key(labels), expected, wanted.to_bytes()))
    return result.status is CasStatus.APPLIED


def taken_by(known: Keeping, name: str, incarnation: int, lease_ms: int) -> Keeping:
    """It is the keeper after this one."""
    lease_ms = max(known.lease_ms, lease_ms)
    return Keeping(known.token + 1, name, incarnation, lease_ms, kept=known.kept)


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
