"""What callers and workers know of one task."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulator.events import Delivered, Settled, Wanted
from tests.simulator.known_calls import Changes


@dataclass(slots=True)
class InHand:
    """Until when a worker has a delivery. `brought`: after a crash nobody knew of it until the worker came back.
    `lapsed`: by then the task may have been moved or have lived again, and what it was delivered as since does not wait
    for this one. `returns`: it was in hand when the server stopped in peace. `silent_ms`: between the end of a lease
    and the next sign of life of its worker; what was sent then, and is still on its way, was free to be sent."""

    worker: str
    delivery_id: bytes
    attempt: int
    until_ms: float
    brought: bool = False
    lapsed: bool = False
    returns: bool = False
    silent_ms: tuple[float, float] = (0.0, 0.0)

    def is_of(self, said: Settled) -> bool:
        """A worker that let the lease of an attempt end may have the same attempt twice. What it says of one of the
        two is the end of both."""
        return (self.worker, self.delivery_id, self.attempt) == (said.worker, said.delivery_id, said.attempt)

    def keeps_from(self, got: Delivered) -> bool:
        from_ms, to_ms = self.silent_ms
        was_free = from_ms <= got.at_ms < to_ms or (self.lapsed and got.delivery_id != self.delivery_id)
        return got.at_ms < self.until_ms and not was_free


@dataclass
class Known:
    """`over`: no delivery may start any more, and why. `cancels`: the requests that may have cancelled it."""

    name: str
    wanted: Wanted
    schedules: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    # Cancels that were answered NOT_FOUND.
    not_found_by: set[str] = field(default_factory=set)
    stored_ms: float = 0.0
    over: str = ""
    over_ms: float = 0.0
    # Over because another task took its key.
    replaced: bool = False
    # Another call wanted its key while its own was under way; it was delivered before that was answered.
    has_rival: bool = False
    was_sent_first: bool = False
    # When it was first asked for.
    first_ms: float = 0.0
    # A call that asked for it was refused, for a later one has its key.
    overtaken: bool = False
    moves: Changes = field(default_factory=Changes)
    redrives: Changes = field(default_factory=Changes)
    # When redrives were carried out, or may be.
    between: list[tuple[float, float]] = field(default_factory=list)
    ended: dict[bytes, str] = field(default_factory=dict)
    ended_ms: dict[bytes, float] = field(default_factory=dict)
    attempts: dict[bytes, int] = field(default_factory=dict)
    # The last attempt that each worker got.
    attempt_of: dict[tuple[str, bytes], int] = field(default_factory=dict)
    # What was said and is not confirmed, by worker and sequence: a worker that comes back says it again.
    unconfirmed: dict[tuple[str, int], Settled] = field(default_factory=dict)
    came_ms: dict[bytes, float] = field(default_factory=dict)
    leases: dict[bytes, float] = field(default_factory=dict)
    in_hand: InHand | None = None
    # An ack is on its way: it is in hand until that is answered.
    acking: bool = False
    delivered: int = 0
    failed: int = 0
    acked: bool = False
    # Deliveries that a worker rejected, or failed for the last time, and when.
    given_up: dict[bytes, float] = field(default_factory=dict)
    rejected: bool = False
    cancels: set[str] = field(default_factory=set)

    @property
    def stored(self) -> bool:
        return self.stored_ms > 0

    def says_again(self, in_hand: InHand) -> bool:
        """Whether its worker, now that it comes back with this, also says that this attempt failed."""
        return any(said.action != "ack" and in_hand.is_of(said) for said in self.unconfirmed.values())

    def end(self, delivery_id: bytes, why: str, now_ms: float) -> None:
        """Of one delivery."""
        self.ended.setdefault(delivery_id, why)
        self.ended_ms.setdefault(delivery_id, now_ms)

    def may_have_left(self, delivery_id: bytes) -> bool:
        """Whether the task may be on to another delivery than this one: a redrive of what was given up, or a move. That
        one may have been asked for before this delivery came, and be carried out by a server that does not know of it;
        then this one does not stand among those that the move has ended."""
        came_ms = self.came_ms[delivery_id]
        is_moved = self.moves.may_be_done_since(came_ms) or self.redrives.may_be_done_since(came_ms)
        return delivery_id in self.given_up or is_moved

    def may_live_again(self, got: Delivered) -> bool:
        """Another task took its key, but it was dead by then, and not cancelled: it may be redriven."""
        was_dead = self.replaced and any(at_ms < self.over_ms for at_ms in self.given_up.values())
        return was_dead and any(lo - 1 <= got.fire_at_ms <= hi and self.over_ms <= hi for lo, hi in self.between)

    @property
    def asked(self) -> set[int]:
        """Every instant that it may be at, of those that a call has named."""
        return self.moves.instants(self.wanted.fire_at_ms)

    @property
    def is_where_it_was(self) -> bool:
        """No call has asked to give it another instant."""
        return not (self.moves.is_any or self.redrives.is_any)

    def redriven(self) -> None:
        """Something has changed in what is known of its redrives."""
        alive = [each for each in self.redrives.of.values() if not each.overtaken]
        self.between = [(each.first_ms, each.answered_ms) for each in alive]
