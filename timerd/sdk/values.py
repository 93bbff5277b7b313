"""What users hand in and get back: plain values that know nothing of streams and messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol, Self

from timerd.sdk.checks import invalid, whole_number
from timerd.sdk.errors import TimerdError
from timerd.sdk.times import Span, datetime_of_ms, duration_of_ms, ms_of_timestamp, span_ms
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb


class _WireEnum(IntEnum):
    """Numbers as on the wire; a number from a newer server reads as UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls(0)

    def __str__(self) -> str:
        return self.name


class TaskState(_WireEnum):
    """Where a task is in its life."""

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


class ItemOutcome(_WireEnum):
    """What became of one task of a call."""

    UNSPECIFIED = 0
    STORED = 1
    NOT_STORED = 2
    UNKNOWN = 3
    # The key was taken: the id is that of the task which has it.
    KEPT = 4


class CancelOutcome(_WireEnum):
    """The answer to a cancel; only CANCELLED and ALREADY_CANCELLED say that no delivery starts any more."""

    UNSPECIFIED = 0
    CANCELLED = 1
    ALREADY_FIRED = 2
    IN_FLIGHT = 3
    ALREADY_CANCELLED = 4
    FINISHED = 5
    NOT_FOUND = 6
    PENDING = 7


class ConflictPolicy(_WireEnum):
    """What to do when the key is in use."""

    UNSPECIFIED = 0
    KEEP = 1
    REPLACE = 2
    REJECT = 3


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempt n+1 follows attempt n after min(initial * multiplier^(n-1), max), less up to `jitter` of it.

    What is left out is left to the server. `jitter` is 0 (none) to 1; left out it is the server's 0.1.
    """

    max_attempts: int = 0
    initial_backoff: Span | None = None
    multiplier: float = 0.0
    max_backoff: Span | None = None
    jitter: float | None = None
    attempt_timeout: Span | None = None

    def to_proto(self) -> task_pb2.RetryPolicy:
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


@dataclass(frozen=True, slots=True)
class Item:
    """One task of `schedule_many` with what differs from the rest."""

    payload: bytes | str
    at: datetime | None = None
    delay: Span | None = None
    key: str | None = None
    labels: Mapping[str, str] | None = None
    content_type: str | None = None
    priority: int | None = None
    retry: RetryPolicy | None = None
    expire_at: datetime | None = None
    soft_expire_at: datetime | None = None
    traceparent: str | None = None


class Answered(Protocol):
    """What is known of the tasks of one answered message."""

    queue: str

    def task_id(self, index: int) -> str: ...
    def fire_at_ms(self, index: int) -> int: ...
    def key(self, index: int) -> str: ...
    def outcome(self, index: int) -> ItemOutcome: ...
    def error(self, index: int) -> TimerdError | None: ...


class Task:
    """A scheduled task: its id is made when it is asked for."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Answered, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def id(self) -> str:
        """Opaque; keeps working after a reschedule. Empty where the task was not stored."""
        return self._batch.task_id(self._index)

    @property
    def fire_at_ms(self) -> int:
        return self._batch.fire_at_ms(self._index)

    @property
    def fire_time(self) -> datetime:
        return datetime_of_ms(self.fire_at_ms)

    @property
    def queue(self) -> str:
        return self._batch.queue

    @property
    def key(self) -> str:
        return self._batch.key(self._index)

    @property
    def outcome(self) -> ItemOutcome:
        return self._batch.outcome(self._index)

    @property
    def error(self) -> TimerdError | None:
        """Why it was not stored."""
        return self._batch.error(self._index)

    def __eq__(self, other: object) -> bool:
        """Of one call: the same task, however often it is looked at."""
        return isinstance(other, Task) and self._batch is other._batch and self._index == other._index

    def __hash__(self) -> int:
        return hash((id(self._batch), self._index))

    def __repr__(self) -> str:
        return f"Task(id={self.id!r}, fire_time={self.fire_time.isoformat()!r}, outcome={self.outcome.name})"


class PartlyStored(TimerdError):
    """Some tasks of one call were stored and some were not: `tasks` says which."""

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


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task as `get` and `list` show it."""

    id: str
    namespace: str
    queue: str
    fire_at_ms: int
    # When it is to be delivered next, or was: list, count and purge go by it.
    due_at_ms: int
    state: TaskState
    payload: bytes
    content_type: str
    labels: dict[str, str]
    priority: int
    key: str
    expire_time: datetime | None
    soft_expire_time: datetime | None
    traceparent: str
    attempt: int
    last_error: str

    @property
    def fire_time(self) -> datetime:
        return datetime_of_ms(self.fire_at_ms)

    @property
    def due_time(self) -> datetime:
        """The fire time, but for a late task when it was stored, and for one that is retried its next attempt."""
        return datetime_of_ms(self.due_at_ms)

    @classmethod
    def of(cls, task: task_pb2.Task) -> TaskInfo:
        return cls(
            id=task.task_id,
            namespace=task.namespace,
            queue=task.queue,
            fire_at_ms=ms_of_timestamp(task.fire_time),
            due_at_ms=ms_of_timestamp(task.due_time if task.HasField("due_time") else task.fire_time),
            state=TaskState(task.state),
            payload=task.payload,
            content_type=task.content_type,
            labels=dict(task.labels),
            priority=task.priority,
            key=task.key,
            expire_time=_moment(task, "expire_time"),
            soft_expire_time=_moment(task, "soft_expire_time"),
            traceparent=task.traceparent,
            attempt=task.attempt,
            last_error=task.last_error,
        )


def _moment(task: task_pb2.Task, field: str) -> datetime | None:
    return datetime_of_ms(ms_of_timestamp(getattr(task, field))) if task.HasField(field) else None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that failed for good, with the error of its last attempt."""

    task: TaskInfo
    death_time: datetime
    attempts: int
    last_error: str

    @classmethod
    def of(cls, letter: pb.DeadLetter) -> DeadLetter:
        death_time = datetime_of_ms(ms_of_timestamp(letter.death_time))
        return cls(TaskInfo.of(letter.task), death_time, letter.attempts, letter.last_error)


class Count(int):
    """A number of tasks; `estimated` where no range was given. Then it also says so when it is printed."""

    estimated: bool = False

    def __str__(self) -> str:
        return f"about {int(self)}" if self.estimated else str(int(self))

    def __repr__(self) -> str:
        return f"Count({int(self)}, estimated={self.estimated})"


class Redriven(int):
    """How many dead letters live again."""

    # Of the ids that were named: those that are no dead letters.
    missing: tuple[str, ...] = ()
    # Dead letters that stay so, and why: id -> sentence.
    refused: Mapping[str, str] = MappingProxyType({})


class Purged(int):
    """How many tasks were removed, or would be in a dry run."""

    dry_run: bool = False


__all__ = [
    "Answered",
    "CancelOutcome",
    "ConflictPolicy",
    "Count",
    "DeadLetter",
    "Item",
    "ItemOutcome",
    "PartlyStored",
    "Purged",
    "Redriven",
    "RetryPolicy",
    "Task",
    "TaskInfo",
    "TaskState",
]
