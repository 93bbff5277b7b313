"""Which tasks a list, a count or a purge is about, as users say it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

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
    numbers = [int(state) for state in states]
    task_filter = pb.TaskFilter(queue=queue, states=numbers, labels=dict(labels or {}))  # type: ignore[arg-type]
    set_range(task_filter, start, end)
    return task_filter


def set_range(
    message: pb.TaskFilter | pb.ListDeadLettersRequest | pb.RedriveRequest,
    start: datetime | None,
    end: datetime | None,
) -> None:
    if start is not None:
        message.start_time.CopyFrom(timestamp_of_ms(instant_ms(start, "start")))
    if end is not None:
        message.end_time.CopyFrom(timestamp_of_ms(instant_ms(end, "end")))
