"""Rules of queues, and their ordering keys, as they show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from timerd.sdk.scheduling.adaptive import Adaptive
from timerd.sdk.scheduling.key_rules import KeyRulesInfo
from timerd.sdk.scheduling.queue_limits import QueueLimit
from timerd.sdk.values import _WireEnum, datetime_of_ms, ms_of_timestamp
from timerd.v1 import regulation_service_pb2 as pb


class QueueMode(_WireEnum):
    """A queue's mode says whether it takes tasks in, and whether it sends them.

    What workers have in hand goes on in every mode.

    Attributes:
        UNSPECIFIED: a mode of a later server, which this release does not know.
        RUNNING: it does both.
        PAUSED: it takes tasks in and sends none.
        DRAINING: it sends tasks and takes none in.
        STOPPED: it does neither.
    """

    UNSPECIFIED = 0
    RUNNING = 1
    PAUSED = 2
    DRAINING = 3
    STOPPED = 4


class QueueOrder(_WireEnum):
    """An order says in what order due tasks of a queue are sent.

    Attributes:
        UNSPECIFIED: one of a later server, which this release does not know.
        AGED: by how long they have waited and by priority; limit keys take turns.
        EDF: earliest deadline first; limit keys take no turns.
    """

    UNSPECIFIED = 0
    AGED = 1
    EDF = 2


class BreakerState(_WireEnum):
    """A breaker's state says whether it lets tasks go.

    Attributes:
        UNSPECIFIED: a state of a later server, which this release does not know.
        CLOSED: it lets them go; after it was open, few at first.
        OPEN: it lets none go.
        HALF_OPEN: it lets one go at a time, to see how it ends.
    """

    UNSPECIFIED = 0
    CLOSED = 1
    OPEN = 2
    HALF_OPEN = 3


class OnFailure(_WireEnum):
    """What becomes of the other tasks of an ordering key when one of them fails.

    Attributes:
        UNSPECIFIED: a policy of a later server, which this release does not know.
        HOLD: they wait for its retries, and go on after the dead letter.
        HALT: they wait for its retries; a dead letter halts the key until it is redriven or skipped.
        PASS: they pass it while it waits for its next attempt, which has its place by its new time.
    """

    UNSPECIFIED = 0
    HOLD = 1
    HALT = 2
    PASS = 3


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key info shows one ordering key of a queue.

    Args:
        key: the ordering key.
        waiting: how many of its tasks the server has in memory, which are due soon or wait.
        task_id: the task that the others wait for: it halts the key, is with a worker, or is the next one; None where
            there is none.
        halted: whether that task has failed for good, and the key stands still since.
        since: of a key that stands still, since when, in UTC.
        next_time: when the next task may start at the earliest, in UTC, where it waits for a retry.
    """

    key: str
    waiting: int
    task_id: str | None
    halted: bool
    since: datetime | None
    next_time: datetime | None

    @classmethod
    def of(cls, message: pb.OrderingKey) -> KeyInfo:
        """The info says what the message `message` says."""
        since = datetime_of_ms(ms_of_timestamp(message.since)) if message.HasField("since") else None
        next_time = datetime_of_ms(ms_of_timestamp(message.next_time)) if message.HasField("next_time") else None
        return cls(message.key, message.waiting, message.task_id or None, message.halted, since, next_time)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue info shows the rules of a queue.

    Args:
        name: the name of the queue.
        namespace: its namespace.
        mode: what it does now.
        until: when it is RUNNING again by itself, in UTC; None where it waits for `resume`.
        note: why it is in this mode.
        revision: grows with each change; 0 where it never had rules.
        limit: how much of it is sent; None for all that workers want.
        limits: names of the limits that it shares with other queues.
        silent: of a change: the instances that live and have not confirmed it. Empty: it is so on all of them.
        held_until: until when the queue is held, since a handler was throttled (`Throttled`), in UTC, as the instance
            that was asked knows it; None where it is not.
        breaker: the state of its breaker, of the instance that was asked; None where it has none.
        breaker_until: until when its breaker is open, in UTC; None where it is not.
        keys: how much of each limit key of it is sent; None where nobody has said that.
        ordering: what becomes of the others of an ordering key when a task of it fails.
        order: in what order its due tasks are sent.
        adaptive: between what bounds it is found out how many of it may be with workers, and how many may be now; None
            where it is not.
    """

    name: str
    namespace: str
    mode: QueueMode
    until: datetime | None
    note: str
    revision: int
    limit: QueueLimit | None = None
    limits: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    held_until: datetime | None = None
    breaker: BreakerState | None = None
    breaker_until: datetime | None = None
    keys: KeyRulesInfo | None = None
    ordering: OnFailure = OnFailure.HOLD
    order: QueueOrder = QueueOrder.AGED
    adaptive: Adaptive | None = None

    @classmethod
    def of(cls, message: pb.Queue, silent: tuple[str, ...] = ()) -> QueueInfo:
        """The info says what the message `message` says; `silent` are those who have not confirmed it."""
        until = datetime_of_ms(ms_of_timestamp(message.until)) if message.HasField("until") else None
        limit = QueueLimit.of(message.limit) if message.HasField("limit") else None
        mode, limits = QueueMode(message.mode), tuple(message.limits)
        rest = message.note, message.revision, limit, limits, silent, held_until(message), *_breaker(message)
        keys = KeyRulesInfo.of(message.keys) if message.HasField("keys") else None
        ordering = OnFailure(message.ordering) if message.ordering else OnFailure.HOLD
        order = QueueOrder(message.order)
        adaptive = Adaptive.of(message.adaptive) if message.HasField("adaptive") else None
        return cls(message.name, message.namespace, mode, until, *rest, keys, ordering, order, adaptive)


def held_until(message: pb.Queue | pb.NamedLimit) -> datetime | None:
    """None: it is not held."""
    return datetime_of_ms(ms_of_timestamp(message.held_until)) if message.HasField("held_until") else None


def _breaker(message: pb.Queue) -> tuple[BreakerState | None, datetime | None]:
    if not message.HasField("breaker"):
        return None, None
    breaker = message.breaker
    until = datetime_of_ms(ms_of_timestamp(breaker.until)) if breaker.HasField("until") else None
    return BreakerState(breaker.state), until
