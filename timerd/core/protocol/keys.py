"""Caller-chosen keys (protocol section 5): reserve PENDING -> write the task -> ACTIVE, then OK.

A key is not released when its task fires: the next conflict finds out lazily what became of the old task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.late_record import tell_end
from timerd.core.protocol.lookup import ENDS, Located, locate
from timerd.core.protocol.past_keys import Had, had_key, has_had_key, is_of, latest_ms, names_of, stands_without_key
from timerd.core.protocol.procedures import AskToMove, HolderAnswer, Procedure, ReadRegister, TryCas
from timerd.core.protocol.request_memory import is_overtaken, overtaken, recall, remember
from timerd.model.errors import Aborted, NotStored, StoreUnknown
from timerd.model.identity import TaskId, attempt_of, generation_of, parse_task_id
from timerd.model.registers import KeyEntry, RegisterKey
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, CasResult, CasStatus, MarkKind

AnyRefusal = TypeVar("AnyRefusal", bound=NotStored)
# A key is kept so long after its task's fire time.
KEY_RETENTION_MS = 7 * 86_400_000
MAX_TRIES = 20
LOST = b"key lost "
ALWAYS_CHANGED = "Other calls change the key all the time: try again."
OLD_IS_SILENT = "Who holds the task that had the key did not answer: that task may still fire."
# By what the ack of a task is answered that may be sent, or was sent again.
NOT_OVER = {Cancelled.PENDING: Asked.SILENT, Cancelled.IN_FLIGHT: Asked.OPEN}


class Conflict(IntEnum):
    """What to do when the key is taken."""

    KEEP = 1
    REPLACE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class Reserved:
    """`taken_by` None: the key is ours to write for (`stored` is what `activate` must find; `replaces` are cancelled
    then, but those of `unsure` that their workers acked). `had_it`: the task has got the key before, so nothing is left
    to do, whichever task has it now. `refused`: a later call, or a faster one, has the key and keeps it."""

    taken_by: TaskId | None = None
    stored: bytes = b""
    replaces: tuple[TaskId, ...] = ()
    unsure: tuple[TaskId, ...] = ()
    had_it: bool = False
    refused: NotStored | None = None


def reserve(
    name: RegisterKey, mine: TaskId, policy: Conflict, now_ms: Callable[[], int] = lambda: 0, asked_ms: int = 0
) -> Procedure[Reserved]:
    """KEEP and REJECT are answered with `taken_by`, REPLACE takes the key over. What is to be cancelled is stored, for
    who reserved may be gone before it is done: the repeat, or the next one, does it. `asked_ms`: when the call was
    made; `now_ms` judges at each look whether it was held up since, for a look may take long. Neither a repeat nor a
    try that was held up takes the key from a later call (tests/models/repeats.pml)."""
    for _ in range(MAX_TRIES):
        current: bytes | None = yield ReadRegister(name)
        entry = KeyEntry.from_bytes(current) if current is not None else None
        had = yield from has_had_key(entry, mine)
        if had is not Had.NEVER:
            lost = had is Had.RESERVED and (yield from was_lost(mine))
            return Reserved(had_it=not lost, refused=key_lost() if lost else None)
        held_ms = latest_ms(entry) if entry is not None and not is_of(entry, mine) else 0
        if policy is Conflict.REPLACE and is_overtaken(asked_ms, held_ms, now_ms()):
            return Reserved(refused=of_this_try(overtaken("got the key", asked_ms, held_ms)))
        alive, unsure = yield from _holders(current, mine)
        if alive and policy is not Conflict.REPLACE:
            return Reserved(taken_by=alive[0])
        old = alive + unsure
        done, has_older = yield from had_key(entry, mine, old, now_ms())
        replaces = (*map(str, old), *_as_named_before(current, mine))
        pending = KeyEntry(str(mine), False, replaces, asked_ms, done, has_older).to_bytes()
        change = Cas(name, current, pending, mine.position_ms + KEY_RETENTION_MS)
        result: CasResult = yield TryCas(change)
        if result.status is CasStatus.APPLIED:
            return Reserved(stored=pending, replaces=old, unsure=unsure)
    raise of_this_try(Aborted(ALWAYS_CHANGED, "KEY_LOST"))


def key_lost() -> Aborted:
    return Aborted("Another call took the key at the same moment: try again.", "KEY_LOST")


def of_this_try(refusal: AnyRefusal) -> AnyRefusal:
    """Another try may have reserved the key before; its task may be with a worker by now, and stand without the key."""
    refusal.only_this_try = True
    return refusal


def activate(name: RegisterKey, mine: TaskId, reserved: Reserved) -> Procedure[TaskId | None]:
    """After the row is durable. None: the task stands. Else somebody took the key over: our own row is cancelled.
    `mine`: by the place where it lives, which may be that of another try of the call."""
    for old in reserved.replaces:
        if old not in reserved.unsure or not (yield from _is_over_by_ack(old)):
            yield from _end_for_good(old, b"replaced by " + str(mine).encode())
    active = _activated(KeyEntry.from_bytes(reserved.stored), mine)
    found: bytes | None = reserved.stored
    for _ in range(MAX_TRIES):
        result: CasResult = yield TryCas(Cas(name, found, active, mine.position_ms + KEY_RETENTION_MS))
        if result.status is CasStatus.APPLIED or result.current == active:
            return None
        # The task that had it is forgotten already: it is free.
        found = result.current
        if found is None:
            continue
        reserved_anew = KeyEntry.from_bytes(found)
        if reserved_anew.active or not is_of(reserved_anew, mine):
            break
        # Another try of the call has reserved it since: it is this task's key as before.
        yield from _end_named(reserved_anew, mine, reserved.replaces)
        active = _activated(reserved_anew, mine)
    # Another try of the call was faster than the call that took the key; or the task is with a worker already.
    taken = KeyEntry.from_bytes(result.current) if result.current is not None else None
    if (yield from has_had_key(taken, mine)) is Had.ACTIVE:
        return None
    if (yield from _was_sent(mine)):
        yield from stands_without_key(mine)
        return None
    said = yield from end_task(mine, Outcome.CANCELLED, LOST + str(mine).encode())
    if said is Cancelled.PENDING:
        raise StoreUnknown("Another call took the key, and who holds this task did not answer: it may still fire.")
    if said is Cancelled.IN_FLIGHT:
        raise StoreUnknown("Another call took the key while the task went to a worker: it is not tried again.")
    if said is Cancelled.ALREADY_FIRED:
        yield from stands_without_key(mine)
        return None
    if said is Cancelled.ALREADY_CANCELLED and not (yield from was_lost(mine)):
        # Who took the key over has ended it: it was stored, and replaced, as another try of the call may have said.
        return None
    return parse_task_id(KeyEntry.from_bytes(result.current).task_id) if result.current is not None else mine


def _activated(entry: KeyEntry, mine: TaskId) -> bytes:
    return replace(entry, task_id=str(mine), active=True, replaces=()).to_bytes()


def _end_named(entry: KeyEntry, mine: TaskId, ended: tuple[TaskId, ...]) -> Procedure[None]:
    """Those that the entry still names to be replaced. Which of them is over by its ack is asked of each."""
    for old in map(parse_task_id, entry.replaces):
        if old is None or old.digest == mine.digest or old in ended:
            continue
        if not (yield from _is_over_by_ack(old)):
            yield from _end_for_good(old, b"replaced by " + str(mine).encode())


def _end_for_good(old: TaskId, request: bytes) -> Procedure[None]:
    """What a cancel finds over has no mark of it, and a crash may undo its end: so that is waited for, and told to the
    holder. As long as the key names the old task, the repeat ends it where it lives by then."""
    said = yield from end_task(old, Outcome.CANCELLED, request)
    if said is Cancelled.PENDING:
        # It may be carried on past its mark.
        raise StoreUnknown(OLD_IS_SILENT)
    if said is Cancelled.ALREADY_FIRED and not (yield from _stays_over(old)):
        raise StoreUnknown("The task that had the key ended, and may not have been written down as such.")


def _is_over_by_ack(task: TaskId) -> Procedure[bool]:
    """Of what nobody has said yet to be over: a cancel beside the mark of its ack would be how it ended."""
    here = yield from locate(task, durable=True)
    if here.rows is None or here.ending.outcome is not None or any(map(here.first, ENDS)):
        return False
    said = yield from _if_acked(task, here)
    if said is Asked.SILENT:
        raise StoreUnknown(OLD_IS_SILENT)
    # Where nobody holds it, the next holder of the partition reads that mark.
    return said is Asked.ENDED


def _stays_over(task: TaskId) -> Procedure[bool]:
    here = yield from locate(task, durable=True)
    if here.rows is not None and here.ending.outcome is not None:
        return (yield from tell_end(here)) in (Asked.ENDED, Asked.OPEN)
    return here.rows is None or any(map(here.first, ENDS))


def _was_sent(mine: TaskId) -> Procedure[bool]:
    """Asked without a mark, which would stop the retries of a task that stands. What is not sent yet is suspended, and
    so is not sent before the mark is written, unless that takes long."""
    here = yield from locate(mine)
    if here.rows is None or attempt_of(here.place.key.version) > 1:
        return here.rows is not None
    answer: HolderAnswer = yield AskToMove(here.place.partition, here.place.key)
    return answer.asked is Asked.OPEN


def was_lost(mine: TaskId) -> Procedure[bool]:
    """Of a repeat: whether the row was cancelled the first time, because another call took the key."""
    here = yield from locate(mine)
    return (here.first(MarkKind.CANCELLED) or b"").startswith(LOST)


def give_back(name: RegisterKey, reserved: Reserved) -> Procedure[None]:
    """What was reserved for a row that does not live: the task that had the key has it again."""
    entry = KeyEntry.from_bytes(reserved.stored)
    for old in reserved.replaces[:1]:
        before = [each for each in entry.done if each.digest != old.digest.hex()]
        asked_ms = next((each.asked_ms for each in entry.done if each.digest == old.digest.hex()), 0)
        active = KeyEntry(str(old), True, (), asked_ms, tuple(before), entry.has_older).to_bytes()
        yield TryCas(Cas(name, reserved.stored, active, old.position_ms + KEY_RETENTION_MS))


def keep(name: RegisterKey, digest: bytes, latest_ms: int) -> Procedure[None]:
    """The task that has the key will live until `latest_ms`, in another place than was known when it got the key."""
    current: bytes | None = yield ReadRegister(name)
    owner = parse_task_id(KeyEntry.from_bytes(current).task_id) if current is not None else None
    if owner is not None and owner.digest == digest:
        yield TryCas(Cas(name, current, current or b"", latest_ms + KEY_RETENTION_MS))


def other_holder(name: RegisterKey, mine: TaskId) -> Procedure[TaskId | None]:
    """Another living task that has the key."""
    current: bytes | None = yield ReadRegister(name)
    alive, _ = yield from _holders(current, mine)
    return alive[0] if alive else None


def regain(name: RegisterKey, mine: TaskId, latest_ms: int) -> Procedure[TaskId | None]:
    """Of a task that is about to live again: it has the key once more, or another living task has it (the answer).
    What is stored is not what was: who read that before, and saw this task dead, does not get the key by it."""
    for _ in range(MAX_TRIES):
        current: bytes | None = yield ReadRegister(name)
        alive, unsure = yield from _holders(current, mine)
        if alive:
            return alive[0]
        was_active = current is not None and KeyEntry.from_bytes(current).active
        entry = KeyEntry.from_bytes(current) if current is not None else None
        done, has_older = yield from had_key(entry, mine, unsure, 0)
        asked_ms = entry.asked_ms if entry is not None else 0
        value = KeyEntry(str(mine), not was_active, tuple(map(str, unsure)), asked_ms, done, has_older).to_bytes()
        result: CasResult = yield TryCas(Cas(name, current, value, latest_ms + KEY_RETENTION_MS))
        if result.status is CasStatus.APPLIED:
            return None
    raise of_this_try(Aborted(ALWAYS_CHANGED, "KEY_LOST"))


def resolve(name: RegisterKey) -> Procedure[TaskId | None]:
    """The task that has the key, by the place where it is."""
    current: bytes | None = yield ReadRegister(name)
    named = names_of(KeyEntry.from_bytes(current)) if current is not None else []
    for task in named[1:] and named:
        if (yield from locate(task)).rows is not None:
            return task
    return named[0] if named else None


def resolve_once(name: RegisterKey, request: bytes, now_ms: int) -> Procedure[TaskId | None]:
    """The task that had the key when the call with that hash first looked: all its tries are about that one, whichever
    task has the key by then."""
    known = yield from recall(request)
    if known is None:
        task = yield from resolve(name)
        known = yield from remember(request, str(task or "").encode(), now_ms)
    return parse_task_id(known.decode()) if known else None


def _as_named_before(current: bytes | None, mine: TaskId) -> list[str]:
    """Until a repeat knows where its task was stored the first time, its id names the place of a task that is late
    now: a look-up finds it by the id of the first time."""
    if current is None:
        return []
    entry = KeyEntry.from_bytes(current)
    known = {text: parse_task_id(text) for text in (entry.task_id, *entry.replaces) if text != str(mine)}
    return [text for text, task in known.items() if task is not None and task.digest == mine.digest]


def _holders(current: bytes | None, mine: TaskId) -> Procedure[tuple[tuple[TaskId, ...], tuple[TaskId, ...]]]:
    """The live tasks that have the key. None: it is free, or its task ended, or its writer died before the row. More
    than one: who took it over died, or has not come so far, before the others were cancelled. A task whose end a crash
    would undo has not ended: it would live again, without the key by which it is found. And those of which nobody has
    said yet that they ended: a call has marked them as cancelled, and a holder that did not answer it may carry them to
    a place where there is no mark; or a record says so of which their holder may not know."""
    if current is None:
        return (), ()
    entry = KeyEntry.from_bytes(current)
    alive: list[TaskId] = []
    unsure: list[TaskId] = []
    for task in map(parse_task_id, (entry.task_id, *entry.replaces)):
        if task is None or task.digest == mine.digest:
            continue
        said = yield from _lives(task)
        if said is Asked.SILENT:
            unsure.append(task)
        elif said is not Asked.ENDED:
            alive.append(task)
    return tuple(alive), tuple(unsure)


def _lives(task: TaskId) -> Procedure[Asked]:
    """ENDED: it does not. SILENT: it may, though something says that it is over."""
    here = yield from locate(task, durable=True)
    if here.rows is None:
        return Asked.ENDED
    if here.ending.outcome is not None:
        return (yield from tell_end(here))
    if any(map(here.first, ENDS)):
        return Asked.SILENT
    return (yield from _if_acked(task, here))


def _if_acked(task: TaskId, here: Located) -> Procedure[Asked]:
    """An ack may have its mark, and no answer of the holder: it carries the task on to where there is none."""
    generation = generation_of(here.place.key.version)
    of_this = (m for m in here.marks if m.kind is MarkKind.ACKED and generation_of(m.key.version) == generation)
    mark = next(of_this, None)
    if mark is None:
        return Asked.WAITING
    said = yield from end_task(task, Outcome.ACKED, mark.value, generation)
    return NOT_OVER.get(said, Asked.ENDED)
