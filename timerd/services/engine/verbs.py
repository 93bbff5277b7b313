"""The seams between the services: what the API asks of the engine, and what delivery asks of it.

The API turns wire messages into these values and back; services/engine/engine.py answers them. So either side can be
tested alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from timerd.core.dispatch import Failure, Settlement
from timerd.core.protocol import Conflict
from timerd.core.taken import LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import AckToken
from timerd.model.errors import NotStored
from timerd.model.identity import TaskId
from timerd.model.outcomes import outcome_of
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Mark
from timerd.model.task import Template
from timerd.ports import DeadLetter

# So long a row waits for the look-up of an ack that may end it, and anew as long as that ack is not answered.
LOOKED_FOR_MS = 10_000


@dataclass(slots=True)
class NewTasks:
    """One message's good items. `rows` (n,): position = fire_at = what was asked (also in the past), all of one
    namespace, prefix table of one, index = place of the item in the request, version 0. `keys`: row -> (key, policy)
    of those that have one. `request_time_ms`: when the caller says that it made the call, the same in each of its
    tries; 0: it does not say. Then `delayed` are the rows that are due a delay after `counted_from_ms`, which is when
    this try came; of a call without request_id, which has no other try, there are none. `waited_ms`: for how long
    others had its keys before it, by no fault of its caller."""

    namespace: str
    prefix: bytes
    rows: RowGroup
    keys: Mapping[int, tuple[str, Conflict]]
    # When the call was made, by whose order calls take keys from one another; 0 = not known.
    asked_ms: int = 0
    request_time_ms: int = 0
    delayed: Sequence[int] = ()
    counted_from_ms: int = 0
    waited_ms: int = 0


@dataclass(slots=True)
class StoredTasks:
    """For each row: where it lives. `kept`: row -> id of the task that has its key; `refused`: row -> why nothing of it
    was written. `may_be_repeat`: an earlier try of the call may have stored them."""

    task_ids: Sequence[TaskId]
    kept: Mapping[int, TaskId]
    refused: Mapping[int, NotStored]
    may_be_repeat: bool = True


# Hears of the call with this number what it is answered.
OnAnswer = Callable[[int, StoredTasks | Exception], None]


class State(IntEnum):
    """As TaskState in the proto."""

    PENDING = 1
    IN_FLIGHT = 2
    ACKED = 3
    CANCELLED = 4
    DEAD = 5
    EXPIRED = 6
    PURGED = 7
    FINISHED = 8
    RETRYING = 9


ENDED = {
    Outcome.ACKED: State.ACKED,
    Outcome.DEAD: State.DEAD,
    Outcome.EXPIRED: State.EXPIRED,
    Outcome.CANCELLED: State.CANCELLED,
    Outcome.PURGED: State.PURGED,
}


def marked(mark: Mark) -> State | None:
    """What a task is whose row has the mark and no record yet; None: that does not end it."""
    outcome = outcome_of(mark)
    return ENDED[outcome] if outcome is not None else None


class CancelAnswer(IntEnum):
    """As CancelOutcome in the proto."""

    CANCELLED = 1
    ALREADY_FIRED = 2
    IN_FLIGHT = 3
    ALREADY_CANCELLED = 4
    FINISHED = 5
    NOT_FOUND = 6
    PENDING = 7


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as Get and List show it. `template` is None for FINISHED."""

    task_id: TaskId
    state: State
    fire_at_ms: int
    # Its place in the order of List: when it is (or was) to be delivered next.
    due_at_ms: int
    template: Template | None = None
    payload: bytes = b""
    key: str = ""
    attempt: int = 0
    last_error: str = ""
    # Of its attempts that have failed (model/attempts.py).
    history: str = ""
    # As it is kept (model/progress.py).
    progress: str = ""
    ordering_key: str = ""
    # The task of its key that is before it, as far as is known.
    behind: TaskId | None = None
    # That one is a dead letter, since which its key stands still.
    is_halted: bool = False
    # Of this life of it: another one after a move and a redrive.
    delivery_id: bytes = b""
    # It was cancelled or purged while a worker had it, who has it still.
    is_cancelling: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Tasks of a namespace with lo <= due time < hi. Empty queue = all; `states` empty = those that have not ended."""

    namespace: str
    lo_ms: int
    hi_ms: int
    queue: str = ""
    states: frozenset[State] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()


class Cursor(NamedTuple):
    """After this row; the content of a page token."""

    position_ms: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Views:
    """A page of a List: `cursor` None = the range is done."""

    views: Sequence[TaskView]
    cursor: Cursor | None
    scanned_through_ms: int


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What doctor shows."""

    durability: str
    store: str
    engine_ms: float
    clock_offset_ms: float
    clock_trusted: bool
    disk_free_bytes: int
    disk_used_bytes: int
    # Names as in the proto's Ledger.
    ledger: Mapping[str, int]
    partitions_open: int
    memory_used_bytes: int
    memory_budget_bytes: int
    loaded: int
    oldest_due_ms: int
    started_ms: int
    lateness_bounds_ms: Sequence[float]
    lateness_counts: Sequence[int]
    advice: Sequence[str]
    notes: Sequence[str] = ()
    # Scope of a queue without workers -> in how many buckets of the store tasks may wait for one.
    backlogs: Mapping[int, int] = field(default_factory=dict)


# Of a late ack: None where its task is acked, or what the task is instead, or what kept it from being known.
Late = State | Exception | None
# What did not end as its delivery did, and what its task is.
Otherwise = list[tuple[Ended, State]]


class AskedMove(NamedTuple):
    """One task to another instant. `request`: what the call is known by. `asked_ms`: when it was made."""

    request: str
    task: TaskId
    fire_at_ms: int
    asked_ms: int


class Verbs(Protocol):
    """What the API asks. Task ids handed in are parsed and genuine for the namespace. Raises model.errors."""

    # Signs ids and ack tokens.
    secret: bytes

    def now_ms(self) -> int:
        """Engine time; raises Unavailable while the clock is not trusted or the engine drains."""
        ...

    async def schedule(self, tasks: NewTasks) -> StoredTasks: ...

    async def is_stored(self, tasks: NewTasks, refused_now: Collection[int] = ()) -> bool:
        """Whether an earlier try of the call stored them; those of them that it refused are taken out. `refused_now`:
        by their places in the request, what a call that is made first would not store."""
        ...

    async def cancel(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[CancelAnswer]: ...

    async def reschedule(self, namespace: str, moves: Sequence[AskedMove]) -> Sequence[int | NotStored]:
        """The new fire times, of different tasks; of a repeat, that of the first time. Or why a task keeps its own:
        NotFound, Precondition (it has fired or ended), Overtaken (a later call has moved it), Aborted (another move
        won), Unavailable (who holds it does not answer). Raises StoreUnavailable, StoreUnknown."""
        ...

    async def moved_before(self, namespace: str, request: str, task: TaskId) -> int | None:
        """What `reschedule` was answered with the first time; None: it was not carried out."""
        ...

    async def recall(self, request: bytes) -> bytes | None:
        """What `remember` was told of the call with that hash."""
        ...

    async def remember(self, request: bytes, answer: bytes) -> bytes:
        """The answer that stands: this one, or that of another try of the call that was faster."""
        ...

    async def keep_result(self, delivery_id: bytes, result: bytes, keep_ms: int) -> None:
        """Durably, of that life of a task; the first one stands. Raises StoreUnknown."""
        ...

    async def kept_result(self, delivery_id: bytes) -> bytes | None:
        """None: there is none, or its time is over."""
        ...

    async def get(self, namespace: str, task: TaskId) -> TaskView:
        """That it has ended is said when nothing takes it back. Raises NotFound."""
        ...

    async def resolve_keys(self, namespace: str, keys: Sequence[str], request: bytes) -> Sequence[TaskId | None]:
        """The tasks that have the keys; None: nobody has. See `resolve_key`."""
        ...

    async def resolve_each(self, namespace: str, keys: Sequence[tuple[str, bytes]]) -> Sequence[TaskId | None]:
        """As `resolve_key`, of many, each with the hash of its own call; None: nobody has the key."""
        ...

    async def resolve_key(self, namespace: str, key: str, request: bytes = b"") -> TaskId:
        """The task that has the key; for the call with the hash `request` the one that had it when a try of that call
        first asked. Raises NotFound."""
        ...

    async def list(
        self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool
    ) -> Views: ...

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        """(count, cursor, scanned_through_ms)."""
        ...

    async def estimate(self, namespace: str, queue: str) -> int: ...

    async def purge(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int, int]:
        """As `count`, of those that are over now, and how many beside them a worker has: these are not tried again."""
        ...

    async def dead_letters(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]: ...

    async def purge_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> int:
        """How many of them are gone."""
        ...

    async def halting(self, dead_letters: Sequence[DeadLetter]) -> Collection[bytes]:
        """Ids of those of them because of which an ordering key stands still."""
        ...

    async def redrive(
        self, namespace: str, request: str, ids: Sequence[TaskId], asked_ms: int
    ) -> Sequence[bool | NotStored]:
        """For each: whether it was a dead letter and lives again, or why it must stay one."""
        ...

    async def facts(self) -> EngineFacts: ...


class Firing(Protocol):
    """What delivery asks."""

    secret: bytes

    def firing_ms(self) -> int | None:
        """Engine time in whole ms; None while the clock is not trusted: nothing fires then."""
        ...

    def clock_ms(self) -> int:
        """Engine time in whole ms, trusted or not."""
        ...

    def take(self, queue: QueueKey, limit: int, now_ms: int, upto: int = LAST) -> Sequence[Taken]:
        """Up to `limit` due rows of the queue, in order, not cancelled, not expired, with order keys of `upto` at most.
        They are open from here on."""
        ...

    def prepare(self, queue: QueueKey, until_ms: int) -> None:
        """Nothing is taken before then: what a take would have to put together can be put together now."""
        ...

    def next_due_ms(self, queue: QueueKey) -> int | None:
        """When take may next give something; None: nothing is loaded for the queue."""
        ...

    def touched(self) -> Collection[QueueKey]:
        """Queues of which something may be due earlier than next_due_ms said, since this was last asked."""
        ...

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        """How many loaded rows of the queue are due by then; `most` or more is said as `most`."""
        ...

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        """Place of the first due row in the order of the queue, the least first; None: nothing is due."""
        ...

    def on_due(self, wake: Callable[[], None]) -> None:
        """`wake` is called when new work may be due earlier than next_due_ms said, or the clock is trusted again."""
        ...

    def worked(self, queue: QueueKey, *, present: bool) -> None:
        """Workers of the queue came, or the last one went: opens and closes its backlog."""
        ...

    def end(self, ended: Sequence[Ended], otherwise: Otherwise) -> Awaitable[None]:
        """They count as ended at once; the awaitable is done when that is durable. `otherwise` gets those whose task
        turns out to have ended in another way before."""
        ...

    def expire(self, failed: Sequence[Again]) -> Awaitable[None]:
        """As `end`, of attempts that failed too late for another one."""
        ...

    def end_acked(self, acked: Sequence[AckedRows], otherwise: Otherwise) -> Awaitable[None]:
        """As `end`, of many that were sent together."""
        ...

    def again(self, failed: Sequence[Again]) -> Awaitable[None]:
        """As `end`, the next attempts durably stored."""
        ...

    def put_back(self, unbegun: Sequence[Again]) -> Awaitable[None]:
        """They wait as if they had not been taken; where that cannot be, they go on as `again`."""
        ...

    def put_dead_letters(
        self, dead_letters: Sequence[DeadLetter], ended: Sequence[Ended], otherwise: Otherwise
    ) -> Awaitable[None]:
        """The dead letters first, then `end`."""
        ...

    async def end_late(self, late: Sequence[AckToken]) -> Sequence[Late]:
        """Acks of deliveries that are not open here (any attempt of the generation): each ends its task where it lives
        now. None: acked, by this or before, which is durable; else what the task is, for which this ack does not count,
        or what kept it from being known."""
        ...

    async def fail_late(self, token: AckToken, failure: Failure) -> State | None:
        """A failure of a delivery that is not open here: its row goes on, or is buried, where it waits for the lease to
        end. None: it counts, or a reject finds its dead letter; else what the task is instead."""
        ...

    async def state_of(self, token: AckToken) -> State:
        """How the task of a delivery has ended that is not open here; PENDING: it has not. Raises what `get` raises."""
        ...

    def settling(self, settlement: Settlement, now_ms: int) -> Sequence[bytes]:
        """A worker has said what became of these: rows that wait elsewhere for the same deliveries do not fire while
        they are looked for. Delivery ids of those that it acked, which do not fire before they are `answered`."""
        ...

    def answered(self, delivery_ids: Collection[bytes]) -> None:
        """As `settling` gave them: their worker has its answer, or is gone."""
        ...

    def leased(self, lease_until: Mapping[bytes, int]) -> None:
        """delivery id -> lease end: rows known to be with a worker (resumed from before a restart, or acknowledged and
        being looked for) do not fire before it."""
        ...
