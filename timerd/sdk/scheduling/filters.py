"""Which tasks a list, a count or a purge is about, as users say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from timerd.sdk.values import LAST_MS, TaskState, flag, instant_ms, invalid, labels_tuple, text, timestamp_of_ms
from timerd.v1 import timer_service_pb2 as pb


def make_filter(
    start: datetime | None,
    end: datetime | None,
    queue: str,
    states: Iterable[TaskState],
    labels: Mapping[str, str] | None,
) -> pb.TaskFilter:
    """Of tasks due from `start` to before `end`; what is left out reaches as far as tasks can."""
    return _in_range(_filter(queue, states, labels), start, end)


def make_count_filter(
    start: datetime | None,
    end: datetime | None,
    queue: str,
    states: Iterable[TaskState],
    labels: Mapping[str, str] | None,
) -> pb.TaskFilter:
    """As `make_filter`. Without a range where nothing but the queue is chosen: that is an estimate."""
    task_filter = _filter(queue, states, labels)
    if start is None and end is None and not task_filter.states and not task_filter.labels:
        return task_filter
    return _in_range(task_filter, start, end)


def make_purge_filter(
    start: datetime | None,
    end: datetime | None,
    queue: str,
    states: Iterable[TaskState],
    labels: Mapping[str, str] | None,
    *,
    force: bool,
) -> pb.TaskFilter:
    """As `make_filter`. What removes all tasks has to say so."""
    task_filter = _filter(queue, states, labels)
    if flag(force, "force") and start is None and end is None and not task_filter.ByteSize():
        raise invalid(
            "Nothing says which tasks to purge: give `queue`, `labels`, `start` or `end`. All tasks of the namespace "
            "are those from `start=datetime(1970, 1, 1, tzinfo=timezone.utc)` on.",
            "start",
        )
    return _in_range(task_filter, start, end)


def _in_range(task_filter: pb.TaskFilter, start: datetime | None, end: datetime | None) -> pb.TaskFilter:
    """Tasks are kept by the time at which they are due, so the server wants to know where to look."""
    task_filter.start_time.CopyFrom(timestamp_of_ms(0))
    task_filter.end_time.CopyFrom(timestamp_of_ms(LAST_MS))
    set_range(task_filter, start, end)
    return task_filter


def set_range(
    message: pb.TaskFilter | pb.ListDeadLettersRequest | pb.RedriveRequest | pb.PurgeDeadLettersRequest,
    start: datetime | None,
    end: datetime | None,
) -> None:
    start_ms = instant_ms(start, "start") if start is not None else None
    end_ms = instant_ms(end, "end") if end is not None else None
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        raise invalid(f"`end` ({end}) must be after `start` ({start}).", "end")
    if start_ms is not None:
        message.start_time.CopyFrom(timestamp_of_ms(start_ms))
    if end_ms is not None:
        message.end_time.CopyFrom(timestamp_of_ms(end_ms))


def _filter(queue: str, states: Iterable[TaskState], labels: Mapping[str, str] | None) -> pb.TaskFilter:
    numbers = _state_numbers(states)
    return pb.TaskFilter(queue=text(queue, "queue"), states=numbers, labels=dict(labels_tuple(labels)))  # type: ignore[arg-type]


def _state_numbers(states: object) -> list[int]:
    given = list(states) if isinstance(states, Iterable) and not isinstance(states, str) else [states]
    numbers = [int(state) for state in given if isinstance(state, TaskState)]
    if len(numbers) < len(given):
        raise invalid(f"`states` is {states!r:.200}: give a list of TaskState, as [TaskState.PENDING].", "states")
    return numbers
