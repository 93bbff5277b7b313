"""The tasks that had a key, for the repeats of the calls that gave it to them: such a repeat was carried out, and takes
the key from nobody.

They stand in the register that decides who gets the key next, as the moves of a task do (core/protocol/past_moves.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from timerd.core.protocol.lookup import locate
from timerd.core.protocol.procedures import Procedure
from timerd.core.protocol.request_memory import REQUEST_MEMORY_MS, recall, remember
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import HadKey, KeyEntry

# So many stand in the register; older ones are remembered under their digests, some at a time.
MOST_IN_REGISTER = 32
PUT_AWAY_AT_ONCE = 16
_KEY = b"key"


class Had(Enum):
    """NEVER: its call is not known. RESERVED: it wrote the task, and may have lost the key before it was answered.
    ACTIVE: it may have been answered that the task is stored."""

    NEVER = "never"
    RESERVED = "reserved"
    ACTIVE = "active"


def has_had_key(entry: KeyEntry | None, mine: TaskId) -> Procedure[Had]:
    """Whether the task has had the key, and how far its call came."""
    if entry is None:
        return Had.NEVER
    if is_of(entry, mine):
        return Had.ACTIVE if entry.active else Had.NEVER
    for each in entry.done:
        if each.digest == mine.digest.hex():
            return Had.ACTIVE if each.active else Had.RESERVED
    known = yield from recall(_KEY + mine.digest)
    return Had(known.decode()) if known is not None else Had.NEVER


def is_of(entry: KeyEntry, mine: TaskId) -> bool:
    task = parse_task_id(entry.task_id)
    return task is not None and task.digest == mine.digest


def stands_without_key(mine: TaskId) -> Procedure[None]:
    """It was sent before its call was answered, and another call has taken the key meanwhile."""
    yield from remember(_KEY + mine.digest, Had.ACTIVE.value.encode(), mine.position_ms)


def latest_ms(entry: KeyEntry) -> int:
    """When the latest call was made of those that got the key."""
    return max(entry.asked_ms, *(each.asked_ms for each in entry.done), 0)


def names_of(entry: KeyEntry) -> list[TaskId]:
    """The ids of the task that has the key: by the places where tries of its call may have put it."""
    known = [task for task in map(parse_task_id, (entry.task_id, *entry.replaces)) if task is not None]
    return [task for task in known if is_of(entry, task)]


def had_key(
    entry: KeyEntry | None, mine: TaskId, living: Sequence[TaskId], now_ms: int
) -> Procedure[tuple[tuple[HadKey, ...], bool]]:
    """What the next entry has to keep: (done, has_older). `living`: tasks whose rows were found."""
    if entry is None:
        return (), False
    done, has_older = entry.done, entry.has_older
    task = yield from _had_it(entry, mine, living)
    if task is not None:
        done = (*done, HadKey(task.digest.hex(), entry.asked_ms, entry.active))
    if len(done) > MOST_IN_REGISTER:
        oldest, done = done[:PUT_AWAY_AT_ONCE], done[PUT_AWAY_AT_ONCE:]
        for each in oldest:
            if each.asked_ms > now_ms - REQUEST_MEMORY_MS:
                had = Had.ACTIVE if each.active else Had.RESERVED
                yield from remember(_KEY + bytes.fromhex(each.digest), had.value.encode(), now_ms)
                has_older = True
    return done, has_older


def _had_it(entry: KeyEntry, mine: TaskId, living: Sequence[TaskId]) -> Procedure[TaskId | None]:
    """The task of the entry, if its row is or was there. A call that only reserved the key, and died before its row,
    has given it to nobody: its repeat begins anew."""
    task = parse_task_id(entry.task_id)
    if task is None or task.digest == mine.digest:
        return None
    if entry.active or any(task.digest == each.digest for each in living):
        return task
    here = yield from locate(task)
    return task if here.rows is not None else None
