"""TaskFilter of the wire -> Query: which tasks List, Count and Purge are about."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from timerd.model.errors import Invalid
from timerd.model.instants import shown
from timerd.services.calls.due_times import ms_from
from timerd.services.calls.fields import queue_of
from timerd.services.engine.verbs import Query, State
from timerd.v1 import timer_service_pb2 as wire

DEFAULT_PAGE = 100
MAX_PAGE = 1_000
DEFAULT_SCANNED = 10_000
MAX_SCANNED = 100_000
# The end of Timestamp's range.
END_OF_TIME_MS = 253_402_300_800_000
_ALIVE = frozenset({State.PENDING, State.IN_FLIGHT, State.RETRYING})


def has_range(tasks: wire.TaskFilter) -> bool:
    return tasks.HasField("start_time") or tasks.HasField("end_time")


def query_of(namespace: str, tasks: wire.TaskFilter) -> Query:
    if not (tasks.HasField("start_time") and tasks.HasField("end_time")):
        raise Invalid(
            "The filter needs a range of due times, because tasks are stored by time: set both filter.start_time "
            "(inclusive) and filter.end_time (exclusive).",
            "filter.start_time",
        )
    lo_ms, hi_ms = bounds(tasks.start_time, tasks.end_time, "filter.")
    queue = queue_of(tasks.queue, "filter.queue") if tasks.queue else ""
    return Query(namespace, lo_ms, hi_ms, queue, _states(tasks), tuple(sorted(tasks.labels.items())))


def bounds(start: Timestamp, end: Timestamp, at: str) -> tuple[int, int]:
    """Half-open, in milliseconds."""
    lo_ms, hi_ms = ms_from(start, at + "start_time"), ms_from(end, at + "end_time")
    if lo_ms >= hi_ms:
        raise Invalid(
            f"The range from {shown(lo_ms)} to {shown(hi_ms)} is empty: end_time must be after start_time.",
            at + "end_time",
        )
    return max(0, lo_ms), max(0, hi_ms)


def open_bounds(
    message: wire.ListDeadLettersRequest | wire.RedriveRequest | wire.PurgeDeadLettersRequest,
) -> tuple[int, int]:
    """As `bounds`, where an end that is not set is open."""
    end = Timestamp(seconds=END_OF_TIME_MS // 1000 - 1)
    return bounds(message.start_time, message.end_time if message.HasField("end_time") else end, "")


def _states(tasks: wire.TaskFilter) -> frozenset[State]:
    try:
        return frozenset(map(State, tasks.states))
    except ValueError:
        names = ", ".join(f"{s.name} ({s.value})" for s in State)
        raise Invalid(f"filter.states holds an unknown value: use {names}.", "filter.states") from None


def alive_only(query: Query) -> Query:
    if query.states <= _ALIVE:
        return query
    raise Invalid(
        "Purge removes only tasks that have not ended: leave filter.states empty, or name PENDING, RETRYING or "
        "IN_FLIGHT.",
        "filter.states",
    )


def estimate_queue(tasks: wire.TaskFilter) -> str:
    """Queue of a Count without a range; empty = all."""
    if tasks.states or tasks.labels:
        raise Invalid(
            "A count without a range of due times comes from estimates, which know only queues: set filter.start_time "
            "and filter.end_time, or leave out states and labels.",
            "filter.start_time",
        )
    return queue_of(tasks.queue, "filter.queue") if tasks.queue else ""
