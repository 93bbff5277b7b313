"""Caller-chosen keys (protocol section 5): reserve PENDING -> write the task -> ACTIVE, then OK.

A key is not released when its task fires: the next conflict finds out lazily what became of the old task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeVar

from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled, end_expired, end_task
from timerd.core.protocol.late_record import tell_end
from timerd.core.protocol.lookup import ENDS, Located, locate
from timerd.core.protocol.past_keys import Had, had_key, has_had_key, is_of, latest_ms, names_of
from timerd.core.protocol.procedures import Procedure, ReadRegister, TryCas
from timerd.core.protocol.request_memory import is_overtaken, overtaken, recall, remember
from timerd.core.protocol.without_key import stands, with_past
from timerd.model.errors import Aborted, NotStored, StoreUnknown
from timerd.model.identity import TaskId, generation_of, parse_task_id
from timerd.model.registers import KeyEntry, RegisterKey
from timerd.model.settle import Outcome
from timerd.model.storage import Cas, CasResult, CasStatus, MarkKind

AnyRefusal = TypeVar("AnyRefusal", bound=NotStored)
# A key is kept so long after its task's fire time.
KEY_RETENTION_MS = 7 * 86_400_000
MAX_TRIES = 20
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
    """`taken_by` None: the key is ours to write for (`stored` is what `activate` must find, `entry` the same;
    `replaces` are cancelled then, but those of `unsure` that their workers acked). `had_it`: the task has got the key
    before, so nothing is left to do, whichever task has it now. `is_behind`: a try of the call wrote the task and lost
    the key, and what becomes of it is seen to when it is known where it lives. `refused`: a later call has the key and
    keeps it."""

    taken_by: TaskId | None = None
    stored: bytes = b""
    entry: KeyEntry | None = field(default=None, compare=False)
    replaces: tuple[TaskId, ...] = ()
    unsure: tuple[TaskId, ...] = ()
    had_it: bool = False
    is_behind: bool = False
    refused: NotStored | None = None


def reserve(
    name: RegisterKey,
    mine: TaskId,
    policy: Conflict,
    now_ms: Callable[[], int] = lambda: 0,
    asked_ms: int = 0,
    waited_ms: int = 0,
) -> Procedure[Reserved]:
    """KEEP and REJECT are answered with `taken_by`, REPLACE takes the key over. What is to be cancelled is stored, for
    who reserved may be gone before it is done: the repeat, or the next one, does it. `asked_ms`: when the call was
    made; `now_ms` judges at each look whether it was held up since, for a look may take long; `waited_ms` of that time
    all other calls for the key were behind it. Neither a repeat nor a try that was held up takes the key from a later
    call (tests/models/repeats.pml)."""
    for _ in range(MAX_TRIES):
        current: bytes | None = yield ReadRegister(name)
        entry = KeyEntry.from_bytes(current) if current is not None else None
        had = yield from has_had_key(entry, mine)
        if had is not Had.NEVER:
            return Reserved(had_it=had is Had.ACTIVE, is_behind=had is not Had.ACTIVE)
        held_ms = latest_ms(entry) if entry is not None and not is_of(entry, mine) else 0
        if policy is Conflict.REPLACE and is_overtaken(asked_ms, held_ms, now_ms() - waited_ms):
            return Reserved(refused=of_this_try(overtaken("got the key", asked_ms, held_ms)))
        old: tuple[TaskId, ...] = ()
        unsure: tuple[TaskId, ...] = ()
        pending = KeyEntry(str(mine), False, (), asked_ms)
        if entry is not None:
            alive, unsure = yield from _holders(current, mine, now_ms())
            if alive and policy is not Conflict.REPLACE:
                return Reserved(taken_by=alive[0])
            old = alive + unsure
            done, has_older = yield from had_key(entry, mine, old, now_ms())
            replaces = (*map(str, old), *_as_named_before(current, mine))
            pending = KeyEntry(str(mine), False, replaces, asked_ms, done, has_older)
        stored = pending.to_bytes()
        result: CasResult = yield TryCas(Cas(name, current, stored, mine.position_ms + KEY_RETENTION_MS))
        if result.status is CasStatus.APPLIED:
            return Reserved(stored=stored, entry=pending, replaces=old, unsure=unsure)
    raise of_this_try(Aborted(ALWAYS_CHANGED, "KEY_LOST"))


def key_lost() -> Aborted:
    return Aborted("Another call took the key at the same moment: try again.", "KEY_LOST")


def of_this_try(refusal: AnyRefusal) -> AnyRefusal:
    """Another try may have reserved the key before; its task may be with a worker by now, and stand without the key."""
    refusal.only_this_try = True
    return refusal


def activate(name: RegisterKey, mine: TaskId, reserved: Reserved, now_ms: int = 0) -> Procedure[TaskId | None]:
    """After the row is durable. None: the task stands. Else somebody took the key over: our own row is cancelled.
    `mine`: by the place where it lives, which may be that of another try of the call."""
    for old in reserved.replaces:
        if old not in reserved.unsure or not (yield from _is_over_by_ack(old)):
            yield from _end_for_good(old, b"replaced by " + str(mine).encode())
    if not reserved.is_behind and (yield from _is_given(name, mine, reserved)):
        return None
    current: bytes | None = yield ReadRegister(name)
    entry = KeyEntry.from_bytes(current) if current is not None else KeyEntry(str(mine))
    if not (yield from stands(mine, now_ms)):
        return parse_task_id(entry.task_id) or mine
    # Whom it was to replace the call that took the key ends as well, but may not have come so far.
    yield from _end_named(_before(entry, mine), mine, reserved.replaces)
    return None


def _is_given(name: RegisterKey, mine: TaskId, reserved: Reserved) -> Procedure[bool]:
    """Whether the task has the key, or had it. Else another call has it: by then the task stands among those that had
    it before, so that no other try of the call takes it back while this one cancels the row."""
    first = reserved.entry or KeyEntry.from_bytes(reserved.stored)
    found: bytes | None = reserved.stored
    wanted, latest_ms, is_ours = _activated(first, mine), mine.position_ms, True
    for _ in range(MAX_TRIES):
        result: CasResult = yield TryCas(Cas(name, found, wanted, latest_ms + KEY_RETENTION_MS))
        if result.status is CasStatus.APPLIED or result.current == wanted:
            return is_ours
        found = result.current
        entry = KeyEntry.from_bytes(found) if found is not None else first
        if found is None or (is_of(entry, mine) and not entry.active):
            # Forgotten already, and free; or another try of the call has reserved it since.
            yield from _end_named(entry, mine, reserved.replaces)
            wanted, latest_ms, is_ours = _activated(entry, mine), mine.position_ms, True
            continue
        had = yield from has_had_key(entry, mine)
        if had is not Had.NEVER:
            return had is Had.ACTIVE
        wanted, latest_ms = yield from with_past(entry, mine, first.asked_ms)
        is_ours = False
    raise StoreUnknown("Other calls change the key all the time: the task is stored, and may lose its key yet.")


def _before(entry: KeyEntry, mine: TaskId) -> KeyEntry:
    """Of those that are to be replaced only the ones that had the key before this task."""
    digests = [each.digest for each in entry.done]
    earlier = {*digests[: digests.index(mine.digest.hex())]} if mine.digest.hex() in digests else set()
    named = [(text, parse_task_id(text)) for text in entry.replaces]
    return replace(entry, replaces=tuple(text for text, task in named if task and task.digest.hex() in earlier))


def _activated(entry: KeyEntry, mine: TaskId) -> bytes:
    return KeyEntry(str(mine), True, (), entry.asked_ms, entry.done, entry.has_older, entry.kept).to_bytes()


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
        return (yield from tell_end(here)).asked in (Asked.ENDED, Asked.OPEN)
    return here.rows is None or any(map(here.first, ENDS))


def give_back(name: RegisterKey, reserved: Reserved) -> Procedure[None]:
    """What was reserved for a row that does not live: the task that had the key has it again, if its call came to its
    end."""
    entry = KeyEntry.from_bytes(reserved.stored)
    for old in reserved.replaces[:1]:
        past = next((each for each in entry.done if each.digest == old.digest.hex()), None)
        if past is None or past.active:
            before, asked_ms = tuple(each for each in entry.done if each != past), past.asked_ms if past else 0
            active = KeyEntry(str(old), True, (), asked_ms, before, entry.has_older).to_bytes()
            yield TryCas(Cas(name, reserved.stored, active, old.position_ms + KEY_RETENTION_MS))


def keep(name: RegisterKey, digest: bytes, latest_ms: int) -> Procedure[None]:
    """The task that has the key will live until `latest_ms`, in another place than was known when it got the key."""
    current: bytes | None = yield ReadRegister(name)
    owner = parse_task_id(KeyEntry.from_bytes(current).task_id) if current is not None else None
    if owner is not None and owner.digest == digest:
        yield TryCas(Cas(name, current, current or b"", latest_ms + KEY_RETENTION_MS))


def other_holder(name: RegisterKey, mine: TaskId, now_ms: int) -> Procedure[TaskId | None]:
    """Another living task that has the key."""
    current: bytes | None = yield ReadRegister(name)
    alive, _ = yield from _holders(current, mine, now_ms)
    return alive[0] if alive else None


def regain(name: RegisterKey, mine: TaskId, latest_ms: int, now_ms: int = 0) -> Procedure[TaskId | None]:
    """Of a task that is about to live again: it has the key once more, or another living task has it (the answer).
    What is stored is not what was: who read that before, and saw this task dead, does not get the key by it."""
    for _ in range(MAX_TRIES):
        current: bytes | None = yield ReadRegister(name)
        alive, unsure = yield from _holders(current, mine, now_ms)
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
    """The task that has the key, by the place where it is. Where the key is reserved for one that is not written yet,
    it is the one that loses it then: the call may yet come to nothing."""
    current: bytes | None = yield ReadRegister(name)
    if current is None:
        return None
    entry = KeyEntry.from_bytes(current)
    named = names_of(entry)
    if entry.active and len(named) == 1:
        return named[0]
    before = [task for task in map(parse_task_id, entry.replaces) if task is not None and task not in named]
    for task in named if entry.active else (*named, *before):
        if (yield from locate(task)).rows is not None:
            return task
    return named[0] if entry.active and named else None


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


def _holders(
    current: bytes | None, mine: TaskId, now_ms: int
) -> Procedure[tuple[tuple[TaskId, ...], tuple[TaskId, ...]]]:
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
        said = yield from _lives(task, now_ms)
        if said is Asked.SILENT:
            unsure.append(task)
        elif said is not Asked.ENDED:
            alive.append(task)
    return tuple(alive), tuple(unsure)


def _lives(task: TaskId, now_ms: int) -> Procedure[Asked]:
    """ENDED: it does not. SILENT: it may, though something says that it is over. What has expired is ended now: before
    that another instance, whose clock is behind, may send it beside the task that gets its key."""
    here = yield from locate(task, durable=True)
    if now_ms and here.has_expired(now_ms):
        return (yield from end_expired(task, here))
    if here.rows is None:
        return Asked.ENDED
    if here.ending.outcome is not None:
        said = yield from tell_end(here)
        return said.asked or Asked.ENDED
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
