"""A task whose key another call took before its own call was answered: it stands without the key, or it is cancelled.

Which of the two is written down once, before the row is marked and before anything is said, so all tries of the call
say the same (guarantee G2). What was sent by then stands, as it would have with its key. That is looked up where the
row lives, which a repeat learns when it stores its message: before that its id names a place of its own clock.
"""

from __future__ import annotations

from dataclasses import replace

from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.lookup import locate
from timerd.core.protocol.past_keys import Had, decide, decided
from timerd.core.protocol.procedures import AskToMove, HolderAnswer, Procedure, ReadRegister
from timerd.model.errors import StoreUnknown
from timerd.model.identity import TaskId, attempt_of, parse_task_id
from timerd.model.registers import HadKey, KeyEntry, Move, move_key
from timerd.model.settle import Outcome
from timerd.model.storage import MarkKind

LOST = b"key lost "


def stands(mine: TaskId, now_ms: int) -> Procedure[bool]:
    """False: the row was cancelled, and the call is refused. `mine`: by the place where it lives. Raises StoreUnknown
    where its holder does not say what became of it, or a worker has it that was to be cancelled."""
    had = yield from decided(mine)
    if had not in (Had.ACTIVE, Had.LOST):
        is_sent = yield from _was_sent(mine)
        had = yield from decide(mine, Had.ACTIVE if is_sent else Had.LOST, now_ms)
    return had is Had.ACTIVE or not (yield from _is_ended_as_lost(mine))


def was_lost(mine: TaskId) -> Procedure[bool]:
    """Of a repeat: whether the row was cancelled the first time, because another call took the key."""
    here = yield from locate(mine)
    return (here.first(MarkKind.CANCELLED) or b"").startswith(LOST)


def with_past(entry: KeyEntry, mine: TaskId, asked_ms: int) -> Procedure[tuple[bytes, int]]:
    """The entry of another call with this task among those that had the key, for no try of its call to take it again;
    and the latest position of both tasks (ms since the epoch)."""
    latest_ms = mine.position_ms
    owner = parse_task_id(entry.task_id)
    if owner is not None:
        stored: bytes | None = yield ReadRegister(move_key(owner.digest))
        moved_ms = Move.from_bytes(stored).latest_ms if stored is not None else 0
        latest_ms = max(latest_ms, owner.position_ms, moved_ms)
    past = HadKey(mine.digest.hex(), asked_ms, active=False)
    return replace(entry, done=(*entry.done, past)).to_bytes(), latest_ms


def _is_ended_as_lost(mine: TaskId) -> Procedure[bool]:
    """Who took the key over may have ended it first: then it was stored, and replaced. So it was where it has fired."""
    said = yield from end_task(mine, Outcome.CANCELLED, LOST + str(mine).encode())
    if said is Cancelled.PENDING:
        raise StoreUnknown("Another call took the key, and who holds this task did not answer: it may still fire.")
    if said is Cancelled.IN_FLIGHT:
        raise StoreUnknown("Another call took the key while the task went to a worker: it is not tried again.")
    if said is Cancelled.ALREADY_CANCELLED:
        return (yield from was_lost(mine))
    return said is not Cancelled.ALREADY_FIRED


def _was_sent(mine: TaskId) -> Procedure[bool]:
    """Asked without a mark, which would stop the retries of a task that stands. What is not sent yet is suspended, and
    so is not sent before the mark is written, unless that takes long."""
    here = yield from locate(mine)
    if here.rows is None or attempt_of(here.place.key.version) > 1:
        return here.rows is not None
    answer: HolderAnswer = yield AskToMove(here.place.partition, here.place.key)
    return answer.asked is Asked.OPEN
