"""Moves of many tasks in one call: each is asked for and answered by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from timerd.sdk.scheduling.targets import one_target, set_target
from timerd.sdk.values import (
    Span,
    TimerdError,
    datetime_of_ms,
    due_of,
    duration_of_ms,
    error_of_problem,
    invalid,
    ms_of_timestamp,
    new_request_id,
    timestamp_of_ms,
)
from timerd.v1 import timer_service_pb2 as pb

# What the server takes in one message.
MAX_MOVES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move is a task, by its id or its key, and its new fire time: `at` or `delay`.

    Args:
        task_id: the id of the task. Default none.
        key: the key of the task. Default none.
        at: the new fire time, a datetime with a zone; one that has passed fires at once.
        delay: the time from now to the new fire time, a timedelta or seconds.
    """

    task_id: str | None = None
    key: str | None = None
    at: datetime | None = None
    delay: Span | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """A moved task has its new fire time; or an error says why it keeps the one that it had.

    Args:
        task_id: the id of the task; empty where it was not moved.
        fire_time: the new fire time in UTC; None where it was not moved.
        error: why it was not moved; None where it was.
    """

    task_id: str
    fire_time: datetime | None
    error: TimerdError | None = None


def requests_of(moves: Iterable[Move], namespace: str, now_ms: int) -> list[pb.RescheduleBatchRequest]:
    """Raises InvalidTask before anything is sent."""
    if not hasattr(moves, "__iter__"):
        raise invalid(f"`moves` must be a list of Move, not {moves!r:.200}.", "moves")
    single = [_request_of(each, now_ms) for each in moves]
    return [
        pb.RescheduleBatchRequest(namespace=namespace, moves=single[at : at + MAX_MOVES])
        for at in range(0, len(single), MAX_MOVES)
    ]


def _request_of(move: Move, now_ms: int) -> pb.RescheduleRequest:
    if not isinstance(move, Move):
        raise invalid(f"`moves` must be a list of Move, and one of them is {move!r:.200}.", "moves")
    one_target(move.task_id, move.key)
    due = due_of(move.at, move.delay)
    request = pb.RescheduleRequest(request_id=new_request_id(), request_time=timestamp_of_ms(now_ms))
    set_target(request, move.task_id, move.key)
    if due.is_delay:
        request.delay.CopyFrom(duration_of_ms(due.ms))
    else:
        request.fire_time.CopyFrom(timestamp_of_ms(due.ms))
    return request


def moved_of(results: Sequence[pb.RescheduleResult]) -> list[Moved]:
    return list(map(_moved, results))


def _moved(result: pb.RescheduleResult) -> Moved:
    if result.HasField("problem"):
        return Moved("", None, error_of_problem(result.problem))
    return Moved(result.task_id, datetime_of_ms(ms_of_timestamp(result.fire_time)))
