"""The seams between the services: what the API asks of the engine, and what delivery asks of it.

The API turns wire messages into these values and back; services/engine/engine.py answers them. So either side can be
tested alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from timerd.core.keys import Conflict
from timerd.core.settlement import Failure, Settlement
from timerd.core.taken import AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import AckToken
from timerd.model.errors import NotStored
from timerd.model.identity import TaskId
from timerd.model.rows import RowGroup
from timerd.model.task import Template
from timerd.ports import DeadLetter

# So long a row waits for the look-up of an ack that may end it.
LOOKED_FOR_MS = 10_000


@dataclass(slots=True)
class NewTasks:
    """One message's good items. `rows` (n,): position = fire_at = what was asked (also in the past), all of one
    namespace, prefix table of one, index = place of the item in the request, version 0. `keys`: row -> (key, policy)
    of those that have one."""

    namespace: str
    prefix: bytes
    rows: RowGroup
    keys: Mapping[int, tuple[str, Conflict]]


@dataclass(slots=True)
class StoredTasks:
    """For each row: where it lives. `kept`: row -> id of the task that has its key; `refused`: row -> sentence."""

    task_ids: Sequence[TaskId]
    kept: Mapping[int, TaskId]
    refused: Mapping[int, str]


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


class Verbs(Protocol):
    """What the API asks. Task ids handed in are parsed and genuine for the namespace. Raises model.errors."""

    # Signs ids and ack tokens.
    secret: bytes

    def now_ms(self) -> int:
        """Engine time; raises Unavailable while the clock is not trusted or the engine drains."""
        ...

    async def schedule(self, tasks: NewTasks) -> StoredTasks: ...

    async def cancel(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[CancelAnswer]: ...

    async def reschedule(self, namespace: str, request_id: str, task: TaskId, fire_at_ms: int) -> int:
        """The new fire time. Raises NotFound, Precondition (it has fired or ended), Aborted (another move won)."""
        ...

    async def get(self, namespace: str, task: TaskId) -> TaskView:
        """Raises NotFound."""
        ...

    async def resolve_key(self, namespace: str, key: str) -> TaskId:
        """Raises NotFound."""
        ...

    async def list(
        self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool
    ) -> Views: ...

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        """(count, cursor, scanned_through_ms)."""
        ...

    async def estimate(self, namespace: str, queue: str) -> int: ...

    async def purge(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]: ...

    async def dead_letters(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]: ...

    async def redrive(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[bool | NotStored]:
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

    def take(self, queue: QueueKey, limit: int, now_ms: int) -> Sequence[Taken]:
        """Up to `limit` due rows of the queue, in order, not cancelled, not expired. They are open from here on."""
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

    def end(self, ended: Sequence[Ended]) -> Awaitable[None]:
        """They count as ended at once; the awaitable is done when that is durable."""
        ...

    def end_acked(self, acked: Sequence[AckedRows]) -> Awaitable[None]:
        """As `end`, of many that were sent together."""
        ...

    def again(self, failed: Sequence[Again]) -> Awaitable[None]:
        """As `end`, the next attempts durably stored."""
        ...

    def put_back(self, unbegun: Sequence[Again]) -> Awaitable[None]:
        """They wait as if they had not been taken; where that cannot be, they go on as `again`."""
        ...

    def bury(self, letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> Awaitable[None]:
        """The dead letters first, then `end`."""
        ...

    async def end_late(self, token: AckToken) -> bool:
        """An ack for a delivery that is not open here (any attempt of the generation): ends the task where it lives
        now. False: it had ended, or was never known."""
        ...

    async def end_late_here(self, late: Sequence[AckToken]) -> list[AckToken]:
        """As `end_late`, of those of many that wait where they were sent from; the others are returned."""
        ...

    async def fail_late(self, token: AckToken, failure: Failure) -> bool:
        """A failure of a delivery that is not open here: its row goes on, or is buried, where it waits for the lease to
        end. False: it had ended, was acked a moment ago, or another attempt took over."""
        ...

    def settling(self, settlement: Settlement, now_ms: int) -> None:
        """A worker has said what became of these: rows that wait elsewhere for the same deliveries do not fire while
        they are looked for."""
        ...

    def leased(self, lease_until: Mapping[bytes, int]) -> None:
        """delivery id -> lease end: rows known to be with a worker (resumed from before a restart, or acknowledged and
        being looked for) do not fire before it."""
        ...
