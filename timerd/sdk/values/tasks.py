"""What users hand in and get back: plain values that know nothing of streams and messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol, Self

from timerd.sdk.values.checks import invalid, whole_number
from timerd.sdk.values.errors import TimerdError
from timerd.sdk.values.times import Span, datetime_of_ms, duration_of_ms, span_ms
from timerd.v1 import task_pb2


class _WireEnum(IntEnum):
    """Numbers as on the wire; a number from a newer server reads as UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    def __str__(self) -> str:
        return self.name


class TaskState(_WireEnum):
    """A task's state says where the task is in its life.

    Attributes:
        UNSPECIFIED: a state of a later server, which this release does not know.
        PENDING: the task is stored; its fire time has not come, or no worker has taken it yet.
        IN_FLIGHT: a worker has a delivery of it.
        ACKED: a worker has acknowledged it.
        CANCELLED: a cancel has ended it.
        DEAD: its attempts are used up, or a worker rejected it; `dead_letters` shows it.
        EXPIRED: it was not delivered before its `expire_at`, or its `expire_after` is over.
        PURGED: a purge has removed it.
        FINISHED: it ended so long ago (24 h by default) that the server no longer keeps how.
        RETRYING: an attempt has failed, and the next one has not begun.
    """

    UNSPECIFIED = 0
    PENDING = 1
    IN_FLIGHT = 2
    ACKED = 3
    CANCELLED = 4
    DEAD = 5
    EXPIRED = 6
    PURGED = 7
    FINISHED = 8
    RETRYING = 9

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the task is sent."""
        return self not in (TaskState.UNSPECIFIED, TaskState.PENDING, TaskState.IN_FLIGHT, TaskState.RETRYING)


class ItemOutcome(_WireEnum):
    """An item's outcome says what became of one task of a call.

    Attributes:
        UNSPECIFIED: an outcome of a later server, which this release does not know.
        STORED: the task is on stable storage and will be delivered.
        NOT_STORED: nothing of it was stored; `Task.error` says why.
        UNKNOWN: it may or may not be stored; scheduling it once more may store it twice.
        KEPT: its key was taken and the policy is `KEEP`; the id is that of the task which has the key.
    """

    UNSPECIFIED = 0
    STORED = 1
    NOT_STORED = 2
    UNKNOWN = 3
    KEPT = 4


class CancelOutcome(_WireEnum):
    """A cancel's outcome says whether deliveries of the task may still start.

    Only `CANCELLED` and `ALREADY_CANCELLED` promise that none does.

    Attributes:
        UNSPECIFIED: an outcome of a later server, which this release does not know.
        CANCELLED: no delivery starts from now on. A worker whose lease had ended before may still be at one.
        ALREADY_FIRED: the task has ended: a worker has acknowledged it, it expired, or it is a dead letter.
        IN_FLIGHT: a worker has the task now; it may finish, and no retry follows.
        ALREADY_CANCELLED: another call has cancelled it before.
        FINISHED: it ended so long ago (24 h by default) that the server no longer keeps how.
        NOT_FOUND: there is no such task in the namespace.
        PENDING: the cancel is stored, but the instance that holds the task did not answer; a delivery may still start.
            Made again with its `request_id`, the call waits for the answer, and says PENDING no more.
    """

    UNSPECIFIED = 0
    CANCELLED = 1
    ALREADY_FIRED = 2
    IN_FLIGHT = 3
    ALREADY_CANCELLED = 4
    FINISHED = 5
    NOT_FOUND = 6
    PENDING = 7


class ConflictPolicy(_WireEnum):
    """A conflict policy says what a call does where its key is in use by a task that has not ended.

    Attributes:
        UNSPECIFIED: the call has no key.
        KEEP: the task that has the key stays, and the call returns its id with the outcome `KEPT`.
        REPLACE: the new task takes the place of the one that has the key.
        REJECT: the call stores nothing and raises AlreadyExists. This is the default.
    """

    UNSPECIFIED = 0
    KEEP = 1
    REPLACE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """A retry policy says when a failed attempt is repeated, and how often.

    Attempt n+1 follows attempt n after `initial_backoff` * `multiplier`^(n-1), at most `max_backoff`, less up to
    `jitter` of it. What is left out is left to the server, whose defaults stand here. A call that uses the policy
    raises InvalidTask for a value out of its range.

    Args:
        max_attempts: deliveries in all, 1 to 65,535; then the task is a dead letter. Default (and 0) 20.
        initial_backoff: the wait before the second attempt, a timedelta or seconds, 1 ms to 30 days. Default 1 s.
        multiplier: the factor by which each wait is longer than the one before, 1 to 100. Default (and 0) 2.
        max_backoff: the longest wait, a timedelta or seconds, `initial_backoff` to 30 days. Default 1 h.
        jitter: the share of each wait that may be cut off, 0 (none) to 1. Default 0.1.
        attempt_timeout: how long one attempt may take, a timedelta or seconds, 100 ms to 7 days; a delivery that is
            not acknowledged by then has failed, however often its lease is extended. Default 1 h.
    """

    max_attempts: int = 0
    initial_backoff: Span | None = None
    multiplier: float = 0.0
    max_backoff: Span | None = None
    jitter: float | None = None
    attempt_timeout: Span | None = None

    def to_proto(self) -> task_pb2.RetryPolicy:
        """The message says the same on the wire. Raises InvalidTask for a value of a wrong form."""
        attempts = whole_number(self.max_attempts, "retry.max_attempts")
        if not isinstance(self.multiplier, int | float):
            raise invalid(f"`retry.multiplier` is a number, not {self.multiplier!r:.200}.", "retry.multiplier")
        policy = task_pb2.RetryPolicy(max_attempts=attempts, multiplier=self.multiplier, jitter=self._wire_jitter())
        for name in ("initial_backoff", "max_backoff", "attempt_timeout"):
            span = getattr(self, name)
            if span is not None:
                getattr(policy, name).CopyFrom(duration_of_ms(span_ms(span, name)))
        return policy

    def _wire_jitter(self) -> float:
        """There 0 is "not set", and none is written as a negative value."""
        if self.jitter is None:
            return 0.0
        if not (isinstance(self.jitter, int | float) and 0 <= self.jitter <= 1):
            raise invalid(
                f"`jitter` is {self.jitter!r}; give 0 (none) to 1, or leave it out for the server's default.",
                "retry.jitter",
            )
        return self.jitter or -1.0


class Answered(Protocol):
    """What is known of the tasks of one answered message."""

    queue: str

    def task_id(self, index: int) -> str: ...
    def fire_at_ms(self, index: int) -> int: ...
    def key(self, index: int) -> str: ...
    def outcome(self, index: int) -> ItemOutcome: ...
    def error(self, index: int) -> TimerdError | None: ...


class Task:
    """A task object names a task that was scheduled, and says what became of the call that scheduled it.

    Clients make it. Its id is composed when it is asked for, so that a call of many tasks is cheap.

    Args:
        batch: the answered message, which has the task.
        index: the place of the task in that message, from 0 on.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Answered, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def id(self) -> str:
        """The id names the task in `get`, `cancel` and `reschedule`.

        It is opaque, keeps working after a reschedule, and is empty where the task was not stored.
        """
        return self._batch.task_id(self._index)

    @property
    def fire_at_ms(self) -> int:
        """The fire time is the instant from which on the task is delivered, in milliseconds since the epoch."""
        return self._batch.fire_at_ms(self._index)

    @property
    def fire_time(self) -> datetime:
        """The fire time is the instant from which on the task is delivered, in UTC."""
        return datetime_of_ms(self.fire_at_ms)

    @property
    def queue(self) -> str:
        """The queue is the one whose workers receive the task."""
        return self._batch.queue

    @property
    def key(self) -> str:
        """The key is the name that its caller has given to the task; empty where there is none."""
        return self._batch.key(self._index)

    @property
    def outcome(self) -> ItemOutcome:
        """The outcome says whether the task is stored; a call of one task raises where it is not."""
        return self._batch.outcome(self._index)

    @property
    def error(self) -> TimerdError | None:
        """The error says why the task is not stored; None where it is."""
        return self._batch.error(self._index)

    def __eq__(self, other: object) -> bool:
        """Of one call: the same task, however often it is looked at."""
        return isinstance(other, Task) and self._batch is other._batch and self._index == other._index

    def __hash__(self) -> int:
        return hash((id(self._batch), self._index))

    def __repr__(self) -> str:
        return f"Task(id={self.id!r}, fire_time={self.fire_time.isoformat()!r}, outcome={self.outcome.name})"


class PartlyStored(TimerdError):
    """This error says that some tasks of one call were stored and some were not, or that it is unknown.

    Its code, reason, `retry_after`, field and item are those of the first error.

    Args:
        tasks: the tasks of the call as far as it came, in their order; `outcome` and `error` of each say what became
            of it. Items after the last one were not sent.
        cause: the first error.
    """

    def __init__(self, tasks: list[Task], cause: TimerdError) -> None:
        stored = sum(task.outcome in (ItemOutcome.STORED, ItemOutcome.KEPT) for task in tasks)
        super().__init__(
            f"{stored} of {len(tasks)} tasks were stored; the others were not, or it is unknown "
            f"(see the outcome and the error of each in `tasks`). The first error was: {cause}",
            code=cause.code,
            reason=cause.reason,
            retry_after=cause.retry_after,
            field=cause.field,
        )
        self.tasks = tasks
        self.item = cause.item


class Count(int):
    """A count is a number of tasks, exact unless `estimated` is set; then it says so when it is printed, too."""

    estimated: bool = False

    def __str__(self) -> str:
        return f"about {int(self)}" if self.estimated else str(int(self))

    def __repr__(self) -> str:
        return f"Count({int(self)}, estimated={self.estimated})"


class Redriven(int):
    """This number says how many dead letters live again.

    `missing` has the ids that were given and belong to no dead letter. `refused` has the dead letters that stay dead:
    id -> sentence that says why.
    """

    missing: tuple[str, ...] = ()
    refused: Mapping[str, str] = MappingProxyType({})


class Purged(int):
    """This number says how many tasks a purge removed, or would remove where `dry_run` is set.

    `staying`: how many dead letters stay, for they halt their ordering keys. `with_workers`: how many tasks beside
    this number workers had in hand: these may still be acknowledged, and are not tried again.
    """

    dry_run: bool = False
    staying: int = 0
    with_workers: int = 0


__all__ = [
    "Answered",
    "CancelOutcome",
    "ConflictPolicy",
    "Count",
    "ItemOutcome",
    "PartlyStored",
    "Purged",
    "Redriven",
    "RetryPolicy",
    "Task",
    "TaskState",
]
