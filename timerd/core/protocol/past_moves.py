"""The moves of a task that were carried out, for their repeats and for moves that were asked for before them.

They stand in the register that decides the next move, so no move comes in between that a repeat does not see: a
procedure that announces a move does so on top of the very register in which its request was looked for
(tests/models/repeats.pml).
"""

from __future__ import annotations

from timerd.core.protocol.procedures import Procedure
from timerd.core.protocol.request_memory import REQUEST_MEMORY_MS, is_overtaken, overtaken, recall, remember
from timerd.model.registers import DoneMove, Move

# So many stand in the register; older ones are remembered under their requests, some at a time.
MOST_IN_REGISTER = 32
PUT_AWAY_AT_ONCE = 16


def moved_before(digest: bytes, move: Move, request: str) -> Procedure[int | None]:
    """What the call with that hash was answered, if it moved the task: the fire time that it gave it."""
    for done in move.carried_out():
        if done.request == request:
            return done.fire_at_ms
    answer = (yield from recall(_name(digest, request))) if move.has_older else None
    return int(answer) if answer is not None else None


def refuse_overtaken(move: Move, asked_ms: int, now_ms: int) -> None:
    """A try that was held up comes after a call that was made later, which may have been acknowledged: that one stands.
    Raises Overtaken."""
    latest_ms = max((done.asked_ms for done in move.carried_out()), default=0)
    if is_overtaken(asked_ms, latest_ms, now_ms):
        raise overtaken("moved the task", asked_ms, latest_ms)


def remembered(digest: bytes, move: Move | None, now_ms: int) -> Procedure[tuple[tuple[DoneMove, ...], bool]]:
    """What the next move has to keep: (done, has_older)."""
    if move is None:
        return (), False
    done, has_older = move.carried_out(), move.has_older
    if len(done) > MOST_IN_REGISTER:
        oldest, done = done[:PUT_AWAY_AT_ONCE], done[PUT_AWAY_AT_ONCE:]
        for each in oldest:
            if each.asked_ms > now_ms - REQUEST_MEMORY_MS:
                yield from remember(_name(digest, each.request), b"%d" % each.fire_at_ms, now_ms)
                has_older = True
    return done, has_older


def _name(digest: bytes, request: str) -> bytes:
    """One call may be about several tasks (Redrive)."""
    return digest + request.encode()
