"""The tasks that had a key, for the repeats of the calls that gave it to them: such a repeat was carried out, and takes
the key from nobody.

They stand in the register that decides who gets the key next, as the moves of a task do (core/protocol/past_moves.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from timerd.core.protocol.lookup import locate
from timerd.core.protocol.procedures import Procedure, TryCas
from timerd.core.protocol.request_memory import REQUEST_MEMORY_MS, recall, remember
from timerd.model.errors import StoreUnknown
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.registers import HadKey, KeyEntry, request_key
from timerd.model.storage import Cas, CasResult, CasStatus

# So many stand in the register; older ones are remembered under their digests, some at a time.
MOST_IN_REGISTER = 32
PUT_AWAY_AT_ONCE = 16
_KEY = b"key"
_MARGIN_MS = 3_600_000
# It may be put away as RESERVED meanwhile, once.
_MOST_CHANGES = 4


class Had(Enum):
    """NEVER: its call is not known. RESERVED: it wrote the task, and lost the key before it was answered; it is decided
    once whether the task is LOST. ACTIVE: it may have been answered that the task is stored."""

    NEVER = "never"
    RESERVED = "reserved"
    ACTIVE = "active"
    LOST = "lost"


def has_had_key(entry: KeyEntry | None, mine: TaskId) -> Procedure[Had]:
    """Whether the task has had the key, and how far its call came."""
    if entry is None:
        return Had.NEVER
    if is_of(entry, mine):
        return Had.ACTIVE if entry.active else Had.NEVER
    past = next((each for each in entry.done if each.digest == mine.digest.hex()), None)
    if past is not None and past.active:
        return Had.ACTIVE
    known = yield from decided(mine)
    return Had.RESERVED if known is Had.NEVER and past is not None else known


def is_of(entry: KeyEntry, mine: TaskId) -> bool:
    task = parse_task_id(entry.task_id)
    return task is not None and task.digest == mine.digest


def decided(mine: TaskId) -> Procedure[Had]:
    """What is known of the task beside the register of the key."""
    known = yield from recall(_KEY + mine.digest)
    return Had(known.decode()) if known is not None else Had.NEVER


def decide(mine: TaskId, had: Had, now_ms: int) -> Procedure[Had]:
    """ACTIVE or LOST, whichever a try has said first: of a task that has lost its key before its call was answered."""
    key, stored = request_key(_KEY + mine.digest), None
    kept_until_ms = max(now_ms, mine.position_ms) + REQUEST_MEMORY_MS + _MARGIN_MS
    for _ in range(_MOST_CHANGES):
        result: CasResult = yield TryCas(Cas(key, stored, had.value.encode(), kept_until_ms))
        if result.status is CasStatus.APPLIED:
            return had
        stored = result.current
        if stored is not None and (known := Had(stored.decode())) is not Had.RESERVED:
            return known
    raise StoreUnknown("It is not known whether the task stands without its key.")


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
