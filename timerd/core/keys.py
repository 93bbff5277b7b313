"""Caller-chosen keys (protocol section 5): reserve PENDING -> write the task -> ACTIVE, then OK.

A key is not released when its task fires: the next conflict finds out lazily what became of the old task.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from timerd.core.cancel import KINDS, end_task
from timerd.core.lookup import locate
from timerd.core.procedures import Procedure, ReadRegister, TryCas
from timerd.model.errors import Aborted
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import KeyEntry, RegisterKey
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, CasResult, CasStatus, MarkKind

# A key is kept so long after its task's fire time.
KEY_RETENTION_MS = 7 * 86_400_000
MAX_TRIES = 20
LOST = b"key lost "


class Conflict(IntEnum):
    """What to do when the key is taken."""

    KEEP = 1
    REPLACE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class Reserved:
    """`taken_by` None: the key is ours to write for (`stored` is what `activate` must find; `replaces` is cancelled
    then)."""

    taken_by: TaskId | None = None
    stored: bytes = b""
    replaces: TaskId | None = None


def reserve(name: RegisterKey, mine: TaskId, policy: Conflict) -> Procedure[Reserved]:
    """KEEP and REJECT are answered with `taken_by`, REPLACE takes the key over."""
    pending = KeyEntry(str(mine)).to_bytes()
    for _ in range(MAX_TRIES):
        current: bytes | None = yield ReadRegister(name)
        old = yield from _holder(current, mine)
        if old is not None and policy is not Conflict.REPLACE:
            return Reserved(taken_by=old)
        change = Cas(name, current, pending, mine.position_ms + KEY_RETENTION_MS)
        result: CasResult = yield TryCas(change)
        if result.status is CasStatus.APPLIED:
            return Reserved(stored=pending, replaces=old)
    raise Aborted("Other calls change the key all the time: try again.", "KEY_LOST")


def activate(name: RegisterKey, mine: TaskId, reserved: Reserved) -> Procedure[TaskId | None]:
    """After the row is durable. None: the key is ours. Else somebody took it over: our own row is cancelled. Raises
    Aborted."""
    if reserved.replaces is not None and reserved.replaces != mine:
        yield from end_task(reserved.replaces, Outcome.CANCELLED, b"replaced by " + str(mine).encode())
    active = KeyEntry(str(mine), active=True).to_bytes()
    found: bytes | None = reserved.stored
    for _ in range(MAX_TRIES):
        result: CasResult = yield TryCas(Cas(name, found, active, mine.position_ms + KEY_RETENTION_MS))
        if result.status is CasStatus.APPLIED or result.current == active:
            return None
        if result.current is not None:
            yield from end_task(mine, Outcome.CANCELLED, LOST + str(mine).encode())
            return parse_task_id(KeyEntry.from_bytes(result.current).task_id)
        # Whoever had it is forgotten already: it is free.
        found = None
    raise Aborted("Other calls change the key all the time: try again.", "KEY_LOST")


def was_lost(mine: TaskId) -> Procedure[bool]:
    """Of a repeat: whether the row was cancelled the first time, because another call took the key."""
    here = yield from locate(mine)
    return (here.first(MarkKind.CANCELLED) or b"").startswith(LOST)


def give_back(name: RegisterKey, reserved: Reserved) -> Procedure[None]:
    """What was reserved for a row that does not live: the task that had the key has it again."""
    old = reserved.replaces
    if old is not None:
        active = KeyEntry(str(old), active=True).to_bytes()
        yield TryCas(Cas(name, reserved.stored, active, old.position_ms + KEY_RETENTION_MS))


def keep(name: RegisterKey, digest: bytes, latest_ms: int) -> Procedure[None]:
    """The task that has the key will live until `latest_ms`, in another place than was known when it got the key."""
    current: bytes | None = yield ReadRegister(name)
    owner = parse_task_id(KeyEntry.from_bytes(current).task_id) if current is not None else None
    if owner is not None and owner.digest == digest:
        yield TryCas(Cas(name, current, current or b"", latest_ms + KEY_RETENTION_MS))


def resolve(name: RegisterKey) -> Procedure[TaskId | None]:
    """The task that has the key."""
    current: bytes | None = yield ReadRegister(name)
    return parse_task_id(KeyEntry.from_bytes(current).task_id) if current is not None else None


def _holder(current: bytes | None, mine: TaskId) -> Procedure[TaskId | None]:
    """The live task that has the key; None: it is free, or its task ended, or its writer died before the row."""
    task = parse_task_id(KeyEntry.from_bytes(current).task_id) if current is not None else None
    if task is None or task.digest == mine.digest:
        return None
    here = yield from locate(task)
    ended = here.rows is None or here.ending.outcome is not None or any(map(here.first, KINDS.values()))
    return None if ended else task
