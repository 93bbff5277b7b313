"""What a relay needs of the database, and of the server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from timerd.outbox.outcomes import SendOutcome
from timerd.outbox.rows import OutboxRow, RefusedRow, SealedBatch
from timerd.outbox.sealing import NOTHING, LeftOut


class DatabaseAway(Exception):
    """The database does not answer, or not now: a sentence. What was asked of it may have been done."""


class DatabaseWrong(Exception):
    """The database cannot be used as it is: a sentence that says what to do."""


@dataclass(slots=True)
class NamespaceFacts:
    """Rows of one namespace: that wait, as far as they are counted; on their way; refused. `oldest_ms`: when the oldest
    of those that wait was written, 0 where there is none."""

    rows: int = 0
    oldest_ms: int = 0
    sealed: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class SealedFact:
    """A sealed batch, as `status` shows it. Times in ms since the epoch. `why`: it is held up, in a sentence of the
    server; else empty."""

    no: int
    tasks: int
    made_ms: int
    owner: str
    until_ms: int
    namespace: str
    why: str


@dataclass(frozen=True, slots=True)
class RefusedFact:
    """A refused row with the number by which it is named."""

    number: int
    refused_ms: int
    refused: RefusedRow


@dataclass(frozen=True, slots=True)
class OutboxFacts:
    """`rows`: that wait, counted up to a bound; `oldest_ms`: when the oldest was written, 0 where there is none."""

    outbox: str
    rows: int
    oldest_ms: int
    refused: int
    now_ms: int
    sealed: list[SealedFact] = field(default_factory=list)
    namespaces: dict[str, NamespaceFacts] = field(default_factory=dict)


def facts_of(
    outbox: str,
    now_ms: int,
    waiting: Collection[tuple[str, int, int]],
    sealed: list[SealedFact],
    refused: Collection[tuple[str, int]],
) -> OutboxFacts:
    """`waiting`: namespace, rows, when the oldest was written; `refused`: namespace, rows."""
    rows, oldest_ms = sum(each[1] for each in waiting), min((each[2] for each in waiting), default=0)
    found: defaultdict[str, NamespaceFacts] = defaultdict(NamespaceFacts)
    for namespace, count, since_ms in waiting:
        found[namespace].rows, found[namespace].oldest_ms = count, since_ms
    for each in sealed:
        found[each.namespace].sealed += each.tasks
    for namespace, count in refused:
        found[namespace].refused = count
    there = dict(sorted(found.items()))
    return OutboxFacts(outbox, rows, oldest_ms, sum(each[1] for each in refused), now_ms, sealed, there)


# Counted rows are looked at one by one.
MOST_COUNTED = 100_000


class OutboxStore(Protocol):
    """The outbox's four tables. Each call is one transaction. Every method raises DatabaseAway and DatabaseWrong."""

    name: str

    async def seal(self, owner: str, lease_s: float, left_out: LeftOut = NOTHING) -> tuple[list[SealedBatch], int]:
        """Takes the lowest rows out and writes the batches that are sent for them, in one transaction, which is durable
        when this returns (X1). What is `left_out` stays, with later rows of its keys, and so does a row whose key is in
        a sealed batch (X3). The second: how many rows it took."""
        ...

    async def take_over(self, owner: str, lease_s: float, in_hand: Collection[int]) -> list[SealedBatch]:
        """Batches whose lease is over, and those of `owner` that it does not have in hand (X4)."""
        ...

    async def keep(self, owner: str, lease_s: float) -> None:
        """The leases of all that `owner` has begin anew; 0 ends them."""
        ...

    async def note(self, batch: SealedBatch, why: str) -> None:
        """For those who look: the batch is held up, and why."""
        ...

    async def done(self, batch: SealedBatch, refused: Sequence[RefusedRow]) -> None:
        """The batch goes, and what was refused of it is kept (X2), if it is still the same one."""
        ...

    async def anew(self, batch: SealedBatch) -> SealedBatch | None:
        """The same rows as of now, under the same number (X5); None: it is another one by now."""
        ...

    async def halve(self, batch: SealedBatch, owner: str, lease_s: float) -> list[SealedBatch]:
        """Two halves in its place; none where it is another one by now."""
        ...

    async def rest(self, batch: SealedBatch, outcome: SendOutcome, owner: str, lease_s: float) -> list[SealedBatch]:
        """It goes, what was refused of it is kept, and what is left of it is a batch in its place (X6). None where it
        is another one by now."""
        ...

    async def make(self) -> None:
        """Makes the tables, as far as they are not there."""
        ...

    async def facts(self) -> OutboxFacts: ...

    async def refused(self, limit: int) -> list[RefusedFact]:
        """The oldest first."""
        ...

    async def settle_refused(self, numbers: Sequence[int], *, again: bool) -> int:
        """They go, and with `again` into the outbox once more. Returns how many there were."""
        ...

    async def reset(self, *, discard: bool) -> int:
        """Another id for the outbox. With `discard` all goes that waits; returns how many tasks that were."""
        ...

    async def put(self, rows: Sequence[OutboxRow]) -> None:
        """Writes rows, as an application does."""
        ...

    async def close(self) -> None: ...


class Sending(Protocol):
    """The way to the server."""

    async def send(self, batch: SealedBatch) -> SendOutcome:
        """Sends the bytes once. Raises nothing of the server's or the network's."""
        ...
