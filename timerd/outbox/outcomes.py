"""What the server's answer to a batch means for its rows (rules X2 and X5).

Nothing is given up for a reason that may pass: only what the server refuses for itself, with a reason, is put with the
refused rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from timerd.outbox.messages import rows_in
from timerd.outbox.rows import OutboxRow, RefusedRow, RowVerb, SealedBatch
from timerd.sdk.values import TimerdError, error_of_problem, is_retryable
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

# Codes of refusals that an operator mends: of a caller without the role, of a server of another release, of one that is
# full.
_MENDED_LATER = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"})
_TOO_OLD = "REQUEST_TOO_OLD"
# The queue takes nothing in: until an operator has it running again.
QUEUE_SHUT = "QUEUE_SHUT"
# By the first try of the call, of which another one has stored a part.
_BEFORE = "REFUSED_BEFORE"
_OVERTAKEN = "OVERTAKEN"
_NO_KEYS = "The server does not know cancels by many keys, for it is of an earlier release: bring it up to this one."


class Next(Enum):
    """What is done with a batch."""

    DONE = auto()
    # The same bytes once more, a little later.
    AGAIN = auto()
    # It is older than the server remembers, and nothing of it is stored: other bytes, under the same number.
    ANEW = auto()
    # Nothing of it was stored, for a reason that lies in one of its rows.
    HALVES = auto()
    # A part of it was stored, and each repeat is told the same. What waits of it goes on as another batch.
    REST = auto()


@dataclass(slots=True)
class SendOutcome:
    """`why`: what the server said last where it is not done. `left`: rows that wait, where the others are done. `shut`:
    queues that take nothing in. `links`: of chains, what is left, in its order: by the same bytes, or rows that need
    others."""

    next: Next
    refused: list[RefusedRow] = field(default_factory=list)
    why: TimerdError | None = None
    left: list[OutboxRow] = field(default_factory=list)
    shut: frozenset[str] = frozenset()
    links: list[SealedBatch | Sequence[OutboxRow]] = field(default_factory=list)


def kind_of(error: TimerdError, verb: int) -> Next:
    """DONE: it is refused for good."""
    if error.reason == _TOO_OLD:
        return Next.ANEW
    if error.reason == _BEFORE:
        return Next.REST
    if error.reason == QUEUE_SHUT or not error.reason or is_retryable(error) or error.code in _MENDED_LATER:
        return Next.AGAIN
    if error.code == "ABORTED" and verb == RowVerb.RESCHEDULE and error.reason != _OVERTAKEN:
        return Next.AGAIN
    return Next.DONE


def of_whole(batch: SealedBatch, error: TimerdError) -> SendOutcome:
    """The call failed as a whole."""
    if batch.verb == RowVerb.CANCEL and error.field == "task_ids":
        return SendOutcome(Next.AGAIN, why=TimerdError(_NO_KEYS, code="UNIMPLEMENTED"))
    found = kind_of(error, batch.verb)
    if found is not Next.DONE:
        return SendOutcome(found, why=error, shut=_queues(batch) if error.reason == QUEUE_SHUT else frozenset())
    if batch.tasks > 1:
        return SendOutcome(Next.HALVES, why=error)
    return SendOutcome(Next.DONE, [RefusedRow(row, str(error), error.reason) for row in rows_in(batch)])


def of_schedules(batch: SealedBatch, response: pb.ScheduleBatchResponse) -> SendOutcome:
    """Each item has its own result where not all are stored."""
    errors: dict[int, TimerdError] = {}
    for result in response.results:
        if result.outcome == task_pb2.ITEM_OUTCOME_UNKNOWN or result.problem.message:
            errors[result.index] = error_of_problem(result.problem)
    return _of_each(batch, errors, stored=response.stored)


def of_cancels(batch: SealedBatch, response: pb.CancelBatchResponse) -> SendOutcome:
    """One that finds no task has nothing left to do."""
    assert len(response.outcomes) == batch.tasks
    return SendOutcome(Next.DONE)


def of_moves(batch: SealedBatch, response: pb.RescheduleBatchResponse) -> SendOutcome:
    assert len(response.results) == batch.tasks
    problems = (each.problem if each.HasField("problem") else None for each in response.results)
    return of_calls(batch, [error_of_problem(each) if each is not None else None for each in problems])


def of_calls(batch: SealedBatch, said: Sequence[TimerdError | None]) -> SendOutcome:
    """`said`: of each move, in their order."""
    return _of_each(batch, {index: error for index, error in enumerate(said) if error is not None})


def _of_each(batch: SealedBatch, errors: dict[int, TimerdError], stored: int = 0) -> SendOutcome:
    """`stored`: how many tasks, now or by an earlier try."""
    if not errors:
        return SendOutcome(Next.DONE)
    shut = [index for index, error in errors.items() if error.reason == QUEUE_SHUT]
    kinds = {index: kind_of(error, batch.verb) for index, error in errors.items() if error.reason != QUEUE_SHUT}
    for wanted in (Next.AGAIN, Next.ANEW):
        for index, kind in kinds.items():
            if kind is wanted:
                return SendOutcome(wanted, why=errors[index])
    rows = rows_in(batch)
    queues = frozenset(rows[index].queue for index in shut)
    before = [index for index, kind in kinds.items() if kind is Next.REST]
    if shut and not stored and not before:
        # The server remembers nothing of it, and an earlier send of these bytes may still be on its way.
        return SendOutcome(Next.AGAIN, why=errors[shut[0]], shut=queues)
    left = sorted([*shut, *before])
    refused = [
        RefusedRow(rows[index], str(errors[index]), errors[index].reason) for index in sorted(errors.keys() - {*left})
    ]
    if not left:
        return SendOutcome(Next.DONE, refused)
    return SendOutcome(Next.REST, refused, errors[left[0]], [rows[index] for index in left], queues)


def _queues(batch: SealedBatch) -> frozenset[str]:
    return frozenset(row.queue for row in rows_in(batch))
