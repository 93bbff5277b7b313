"""What dispatch asks of those around it: an alarm, the other instances, and a sink for each worker.

A new way to deliver (a file, say) is a new class that keeps `Sink`: docs/understand/architecture.md says how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from timerd.core.dispatch import Assignment, InterruptReason, Refusal
from timerd.core.taken import QueueKey


class Alarm(Protocol):
    """Rings once at an instant of engine time, to a fraction of a millisecond, never before it."""

    def listen(self, ring: Callable[[], None]) -> None: ...

    def set(self, at_ms: float) -> None:
        """Replaces what was set before; an instant that has passed rings at once."""
        ...

    def close(self) -> None: ...


class RemoteInstances(Protocol):
    """The other instances, as the pump sees them."""

    def listen(self, wake: Callable[[], None]) -> None:
        """`wake` is called when a round may have more to do."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether deliveries of other instances are with workers of this one."""
        ...

    def before(self, now_ms: int) -> None:
        """A round begins: credit is lent before the own tasks use it up."""
        ...

    def after(self, now_ms: int) -> float:
        """What was due is sent as far as there is credit. Returns when to come again."""
        ...

    def slot_wants(self) -> Iterable[tuple[QueueKey, int, int]]:
        """(queue, order key of the first task, number of the instance) of what others have due and a free slot of a
        pool could run; without those to which one is lent already."""
        ...

    def lend_slots(self, queue: QueueKey, peer: int, slots: int, now_ms: int) -> None:
        """So many, that are free, are credit of that instance for the queue."""
        ...

    def lend_spare_slots(self, now_ms: int) -> None:
        """Nothing that is due here, and nobody who was waiting for its turn, wants those that are free now."""
        ...

    def drain(self) -> None:
        """The instance goes away: no credit is lent or kept any more."""
        ...


class Sent(NamedTuple):
    """What it took a sink to deliver: messages, and about how many bytes in all."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The answer to one settle, given when it is durable. `sequence` is the settler's own number of it, `tokens` how
    many ack tokens it named. `refused`: those that settle nothing, by their places. `error`: nothing of it counts, and
    it is safe to say all of it again."""

    sequence: int
    tokens: int
    refused: Mapping[int, Refusal] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def problem(self) -> str:
        """Why not all of it counts, in a sentence; empty: all of it does."""
        if self.error is not None:
            return str(self.error)
        return self.refused[min(self.refused)].sentence if self.refused else ""


class Settler(Protocol):
    """Says what became of deliveries, and is answered when that is durable. Ack tokens count in `namespace` only."""

    number: int
    namespace: str

    def owe(self, tokens: int) -> None:
        """A confirmation will come, of so many."""
        ...

    def confirm(self, confirmation: Confirmation) -> None:
        """What was owed."""
        ...


class Sink(Settler, Protocol):
    """Where the deliveries of one worker go. `number` is its own (Delivery.next_number). `closing`: it takes nothing
    new. `counts_as_worker`: it is a connection of a worker to this instance. `takes_backlog`: what its queues have not
    delivered for long is looked for in the store."""

    closing: bool
    counts_as_worker: bool
    takes_backlog: bool

    def deliver(self, assignment: Assignment) -> Sent:
        """Sends due rows: within this call, or it keeps what has to wait and says so by `block_if_full`."""
        ...

    def block_if_full(self) -> bool:
        """True once when too much waits. Delivery.room is called when there is room again."""
        ...

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """The work on these deliveries is for nothing, and the worker may end it. It may be said again."""
        ...

    def go_away(self) -> None:
        """The instance stops: nothing more is sent, and what is in hand is to be finished."""
        ...
