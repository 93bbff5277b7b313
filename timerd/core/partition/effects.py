"""What the core asks of its shell, batch-shaped. The shell performs each and hands the result back as a fact.

Order is part of the type: a machine emits an effect only when what must be durable before it is durable, and has at
most one of each kind on its way per partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timerd.model.partition import Partition
from timerd.model.registers import Control, Move
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, SettleRecord
from timerd.model.storage import DeadLetter, Mark


@dataclass(frozen=True, slots=True)
class ReadControl:
    """-> PartitionMachine.control_read"""

    partition: Partition


@dataclass(frozen=True, slots=True)
class ChangeControl:
    """-> PartitionMachine.control_changed"""

    partition: Partition
    expected: Control | None
    value: Control


@dataclass(frozen=True, slots=True)
class ReadSettled:
    """-> PartitionMachine.settled_read"""

    partition: Partition


@dataclass(frozen=True, slots=True)
class ReadPage:
    """-> PartitionMachine.page_read. `keys_first`: bodies only of what memory lacks, most of it being there."""

    partition: Partition
    lo_ms: int
    hi_ms: int
    cursor: int
    keys_first: bool = False


@dataclass(frozen=True, slots=True)
class WriteSettled:
    """The record and the dead letters of what it ends, together; -> PartitionMachine.settled_written"""

    record: SettleRecord
    dead_letters: Sequence[DeadLetter] = ()


@dataclass(frozen=True, slots=True)
class WriteCarried:
    """Insert these rows in full (core/protocol/insertion.py); -> PartitionMachine.carried_written. `given`: marks that
    are repeated on them before they are there. `ends`: notes of rows whose ends make tasks, which are inserted as well
    (core/protocol/told_ends.py). `unwritten`: those of them that may not be in the store yet."""

    partition: Partition
    sequence: int
    groups: Sequence[tuple[Partition, RowGroup]]
    given: Sequence[Mark] = ()
    ends: Sequence[Carry] = ()
    unwritten: Sequence[RowGroup] = ()


@dataclass(frozen=True, slots=True)
class AskMoves:
    """Serial reads of `moves`; -> PartitionMachine.moves_read"""

    partition: Partition
    digests: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class FailMove:
    """Rule H2: a move that its mover left undecided is FAILED by the holder that needs to know."""

    partition: Partition
    digest: bytes
    move: Move


@dataclass(frozen=True, slots=True)
class FlagFinishing:
    """-> PartitionMachine.flagged"""

    partition: Partition


@dataclass(frozen=True, slots=True)
class CountRows:
    """A key-only scan of the whole partition; -> PartitionMachine.counted. `again`: after a pause."""

    partition: Partition
    again: bool = False


Effect = (
    ReadControl
    | ChangeControl
    | ReadSettled
    | ReadPage
    | WriteSettled
    | WriteCarried
    | AskMoves
    | FailMove
    | FlagFinishing
    | CountRows
)
Effects = list[Effect]
