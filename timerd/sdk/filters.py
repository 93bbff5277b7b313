"""Which tasks a list, a count or a purge is about, as users say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from timerd.sdk.checks import invalid, labels_tuple, text
from timerd.sdk.times import instant_ms, timestamp_of_ms
from timerd.sdk.values import TaskState
from timerd.v1 import timer_service_pb2 as pb


def make_filter(
    start: datetime | None,
    end: datetime | None,
    queue: str,
    states: Iterable[TaskState],
    labels: Mapping[str, str] | None,
) -> pb.TaskFilter:
    """Of a range of due times, which is as wide as `start` and `end` say."""
    if start is None or end is None:
        raise invalid(
            "Give both `start` (inclusive) and `end` (exclusive): tasks are kept by the time at which they are due, so "
            "it must be known where to look.",
            "end" if start else "start",
        )
    task_filter = _filter(queue, states, labels)
    set_range(task_filter, start, end)
    return task_filter


def make_count_filter(
    start: datetime | None,
    end: datetime | None,
    queue: str,
    states: Iterable[TaskState],
    labels: Mapping[str, str] | None,
) -> pb.TaskFilter:
    """As `make_filter`, or without a range: an estimate."""
    if start is not None or end is not None:
        return make_filter(start, end, queue, states, labels)
    task_filter = _filter(queue, states, labels)
    if task_filter.states or task_filter.labels:
        raise invalid(
            "A count without `start` and `end` is an estimate, which knows only queues: give both of them, or leave "
            "out `states` and `labels`.",
            "start",
        )
    return task_filter


def set_range(
    message: pb.TaskFilter | pb.ListDeadLettersRequest | pb.RedriveRequest,
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
