"""The rows of one ordering key that wait, in their order, and what is known of each."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from timerd.core.ordering.key_counts import KeyPhase, RowsBehind
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup

# What is kept of a row beside its columns and payload, about.
FILED_BYTES = 400
Give = Callable[[RowGroup, int], None]


class OrderedHome(Protocol):
    """What waits of ordering keys in one partition. `awaited_ms`: position of the last row that waited until it was
    known to be the first."""

    partition: Partition
    give: Give
    behind: RowsBehind
    awaited_ms: int


@dataclass(slots=True, eq=False)
class Filed:
    """A row that has not been sent, nor before `until_ms`. `is_given`: it waits in its due queue. `is_due`: it was seen
    to be. `is_over`: it ends when its turn comes. `met_at`: so many looks at the catalogue had begun by then."""

    key: RowKey
    seq: int
    rows: RowGroup
    row: int
    until_ms: int
    line: Line
    home: OrderedHome
    is_given: bool = False
    is_gone: bool = False
    is_due: bool = False
    is_over: bool = False
    met_at: int = 0

    @property
    def queue(self) -> QueueKey:
        return self.line.queue

    @property
    def expiry_ms(self) -> int:
        """From when on it is over; 0: never, or a worker may have it still."""
        return 0 if self.is_leased else self.rows.expiry_ms(self.row)

    @property
    def is_leased(self) -> bool:
        """Whether a worker had it when its row was written."""
        return bool(self.rows.extra_of(self.row).lease_until_ms)

    @property
    def size_bytes(self) -> int:
        return FILED_BYTES + int(self.rows.columns["length"][self.row])

    def turn(self, *, is_given: bool) -> None:
        """It waits in its due queue from now on, or behind its key."""
        if is_given is not self.is_given:
            self.is_given = is_given
            self.home.behind.more(self, -1 if is_given else 1)


@dataclass(slots=True, eq=False)
class Line:
    """One key. `blocked`: how many of its tasks keep the others from being sent; `waiting`: how many wait in memory.
    `counted`: as what it is counted."""

    queue: QueueKey
    ordering_key: str
    heap: list[tuple[int, int, int, Filed]] = field(default_factory=list)
    blocked: int = 0
    waiting: int = 0
    counted: KeyPhase | None = None

    def phase(self) -> KeyPhase | None:
        """Whatever halts it. None: nothing of it is in memory."""
        if self.blocked:
            return KeyPhase.IN_HAND
        return KeyPhase.WAITING if self.waiting else None

    def first(self) -> Filed | None:
        while self.heap and self.heap[0][3].is_gone:
            heapq.heappop(self.heap)
        return self.heap[0][3] if self.heap else None


class KeyFacts(NamedTuple):
    """Of one key, for people: how many of its tasks wait in memory, which one keeps them back, and the first."""

    ordering_key: str
    waiting: int
    sent: Filed | None
    first: Filed | None
