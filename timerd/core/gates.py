"""May this row be sent? An ordered list of gates is asked, before a row is opened, and the first that objects decides.

A gate says of a row that it may be sent (which is silence), that it ends, that it is requeued, that it is held, or that
the gate keeps it with what blocks it. The row table applies what was said (core/partition/row_table.py), in the step
that takes the rows: nothing is opened and taken back. docs/understand/architecture.md says where a new gate goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from timerd.core.taken import Taken
from timerd.model.identity import RowKey
from timerd.model.settle import Carry, Outcome
from timerd.model.storage import DeadLetter


class End(NamedTuple):
    """The row is over, and its copies with it. `letter`: what becomes durable with its record."""

    outcome: Outcome
    letter: DeadLetter | None = None


class Follow(NamedTuple):
    """The row says what another one says: it ends as requeued to where `carry` leads, whatever source that names."""

    carry: Carry


class Requeue(NamedTuple):
    """A worker has the task: the row goes on at the end of that lease, as the same attempt."""

    until_ms: int


class Hold(NamedTuple):
    """The row waits where it is, and is judged again at that instant, or a little earlier with what is due by then."""

    until_ms: int


class Kept(NamedTuple):
    """Nothing is to be done: the row has ended, or what blocks it keeps it."""


KEPT = Kept()
Fate = End | Follow | Requeue | Hold | Kept
# By the place of the row in its batch. Who is not named may be sent.
Fates = Mapping[int, Fate]
ALL_MAY: Fates = {}


@dataclass(slots=True)
class DueBatch:
    """Due rows of one queue and partition that no longer wait and are not open yet. `since_ms`: when the partition was
    taken over. `past_ms`: what expires by then has expired. `fates`: what earlier gates have said."""

    due: Taken
    since_ms: int
    past_ms: int
    fates: dict[int, Fate] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.due)

    def key(self, row: int) -> RowKey:
        return self.due.key(row)

    def left(self) -> Iterator[int]:
        """The rows that no gate has objected to so far."""
        return (row for row in range(len(self.due)) if row not in self.fates)


class Gate(Protocol):
    """One reason why a row may not be sent."""

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        """What becomes of rows of the batch that must not be sent now. Of those in `batch.fates` it is not asked, and
        what it says of them does not count. Asked once for each batch; a row that was held comes again."""
        ...


def judge(gates: Iterable[Gate], batch: DueBatch, now_ms: int) -> None:
    """Asks the gates in their order; the first that objects to a row decides."""
    for gate in gates:
        for row, fate in gate.judge(batch, now_ms).items():
            batch.fates.setdefault(row, fate)
