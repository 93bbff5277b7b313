"""How an instance becomes the keeper of what is lent, and gives it up, at the store: of a limit, and of a home of limit
keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from timerd.core.protocol import Procedure, ReadRegister, TryCas
from timerd.model.keeping import HomeKeeping, Keeping
from timerd.model.registers import RegisterKey
from timerd.model.storage import Cas, CasResult, CasStatus

AnyKeeping = TypeVar("AnyKeeping", Keeping, HomeKeeping)


def read_keeping(key: RegisterKey, nobody: AnyKeeping) -> Procedure[AnyKeeping]:
    """`nobody`: what an empty register says. Raises NotUnderstood."""
    stored: bytes | None = yield ReadRegister(key)
    return nobody if stored is None else type(nobody).from_bytes(stored)


def change_keeping(key: RegisterKey, known: AnyKeeping, wanted: AnyKeeping) -> Procedure[bool]:
    """False: it is another one by now."""
    expected = known.to_bytes() if known.token else None
    result: CasResult = yield TryCas(Cas(key, expected, wanted.to_bytes()))
    return result.status is CasStatus.APPLIED


def taken_by(known: AnyKeeping, name: str, incarnation: int, lease_ms: int) -> AnyKeeping:
    """It is the keeper after this one."""
    return type(known)(known.token + 1, name, incarnation, max(known.lease_ms, lease_ms), kept=known.kept)


def with_lease(known: AnyKeeping, lease_ms: int) -> AnyKeeping:
    """A worker has a longer one than those before."""
    return replace(known, lease_ms=lease_ms)
