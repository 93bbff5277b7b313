"""Multi-step protocols as generators: each yields a request to the world and is sent the answer.

So the order of steps, which is what keeps tasks from being lost, is plain code without I/O; production drives it
against a store, tests and the simulator step through it and stop it anywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

from timerd.core.partition import Asked
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, Outcome
from timerd.model.storage import Append, Cas, Entry, EntryKey, Look, Mark

ProcedureResult = TypeVar("ProcedureResult")


@dataclass(frozen=True, slots=True)
class Find:
    """-> list[Found]"""

    partition: Partition
    keys: Sequence[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class LookAt:
    """-> Looked"""

    look: Look


@dataclass(frozen=True, slots=True)
class MarkAndLook:
    """-> tuple[int, Looked]: SetMarks, then LookAt, in one trip where the store can do that"""

    marks: Sequence[Mark]
    look: Look


@dataclass(frozen=True, slots=True)
class FindVacant:
    """-> Vacant | None: those of the partitions that nobody holds at this moment. None: other instances may hold any,
    which only they can say"""

    partitions: Sequence[Partition]


@dataclass(frozen=True, slots=True)
class Vacant:
    """`changes`: how often a partition was taken or let go so far; while it is the same, the same are vacant."""

    partitions: Set[Partition]
    changes: int


@dataclass(frozen=True, slots=True)
class FindSettled:
    """-> Ending: how a row ended, by the holder's memory or the settle records. `durable`: not before a crash cannot
    take the end back"""

    partition: Partition
    key: RowKey
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """`outcome` None: not settled. `carry`: where a CARRIED row went. `is_known`: what was to be durable is known to
    whichever instance holds the row, for certain."""

    outcome: Outcome | None
    carry: Carry | None = None
    is_known: bool = field(default=False, compare=False)


# Said of many rows, it is known by its identity.
NOT_ENDED = Ending(None)


@dataclass(frozen=True, slots=True)
class SetMarks:
    """-> int: how many of them are known to be the first of their kind on their row"""

    marks: Sequence[Mark]


@dataclass(frozen=True, slots=True)
class ReadRegister:
    """-> bytes | None, serial"""

    key: RegisterKey


@dataclass(frozen=True, slots=True)
class ReadRegisters:
    """-> list[bytes | None], serial"""

    keys: Sequence[RegisterKey]


@dataclass(frozen=True, slots=True)
class ReadBucket:
    """-> BucketEntry | None: what the catalogue says of the partition's bucket"""

    partition: Partition


@dataclass(frozen=True, slots=True)
class FindSettledEach:
    """-> list[Ending], one per key, each as FindSettled says it"""

    partition: Partition
    keys: Sequence[RowKey]
    durable: bool = False


@dataclass(frozen=True, slots=True)
class FindSettledMany:
    """-> list[Ending], one per key; what goes on elsewhere counts as carried before that is durable"""

    partition: Partition
    keys: Sequence[RowKey]


@dataclass(frozen=True, slots=True)
class AskToEndMany:
    """-> list[HolderAnswer], one per key; see AskToEnd"""

    partition: Partition
    keys: Sequence[RowKey]
    outcome: Outcome
    request: bytes


@dataclass(frozen=True, slots=True)
class Together:
    """-> list of the answers. The requests write nothing and do not wait for each other."""

    requests: Sequence[Find | LookAt | FindSettledMany | FindSettledEach]


@dataclass(frozen=True, slots=True)
class TryCas:
    """-> CasResult; UNKNOWN, with what is there now, only where it was refused, or done and then overwritten."""

    change: Cas


@dataclass(frozen=True, slots=True)
class TryCasMany:
    """-> list[CasResult], each change on its own; see TryCas"""

    changes: Sequence[Cas]


@dataclass(frozen=True, slots=True)
class AppendRows:
    """-> list[Appended]"""

    messages: Sequence[Append]


@dataclass(frozen=True, slots=True)
class HintRows:
    """-> None: to the holders, or to the instance that should hold the partition. `controls`: the control rows that
    were read when the rows were durable."""

    rows: Sequence[tuple[Partition, RowGroup, int]]
    controls: Mapping[Partition, bytes | None] = field(default_factory=dict)
    # Whether an earlier try may have hinted them.
    may_repeat: bool = False


@dataclass(frozen=True, slots=True)
class OfferRows:
    """-> Offered | None (nobody holds the partition). `is_repeat`: they were stored before, and perhaps taken in.
    `control`: the control row that was read when they were durable; it names the holder."""

    partition: Partition
    rows: RowGroup
    source: int
    is_repeat: bool = False
    control: bytes | None = None


@dataclass(frozen=True, slots=True)
class AskToEnd:
    """-> HolderAnswer: cancel, purge, acknowledge, or tell how it ended. Unless the row has ended, the holder remembers
    the outcome in the step that answers; an open row's retries stop. `lease_until_ms`: the row waits for a delivery
    that may be in hand until then."""

    partition: Partition
    key: RowKey
    outcome: Outcome
    request: bytes
    lease_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class AskToEndEach:
    """-> list[HolderAnswer], one per request; see AskToEnd. A holder is asked once for all rows of a partition, and
    none is waited for before the next one is asked."""

    requests: Sequence[AskToEnd]


@dataclass(frozen=True, slots=True)
class AskToMove:
    """-> HolderAnswer. Unless the row is open or has ended, the holder suspends it in the step that answers."""

    partition: Partition
    key: RowKey


@dataclass(frozen=True, slots=True)
class AskToMoveMany:
    """-> list[HolderAnswer], one per request; see AskToMove. A holder is asked once for all rows of a partition, and
    none is waited for before the next one is asked."""

    requests: Sequence[AskToMove]


@dataclass(frozen=True, slots=True)
class AskInHand:
    """-> bool: a worker has a delivery of this row's generation, as far as is known in this process; or the row waits
    for one until `lease_until_ms`, which is not over"""

    key: RowKey
    lease_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class AskMayReturn:
    """-> bool | None: a worker has a delivery of this row, or may come back with one, for its holder has begun after
    the row was due, and not long ago. A holder that does not answer may know of one. None: nobody holds the
    partition."""

    partition: Partition
    key: RowKey


@dataclass(frozen=True, slots=True)
class Recheck:
    """-> None: moves of these tasks were decided; the holder of the partition reads them again"""

    partition: Partition
    digests: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class HolderAnswer:
    """`asked` None: nobody holds the partition, and the next holder reads the marks that were durable before. Not to
    be taken for SILENT. `request`: whose outcome stands. `in_hand`: nobody speaks for the row, and a worker has the
    delivery that it waits for."""

    asked: Asked | None
    outcome: Outcome | None = None
    request: bytes = b""
    in_hand: bool = False


@dataclass(frozen=True, slots=True)
class WriteEntries:
    """-> None: they are durable"""

    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class FindEntries:
    """-> list[bytes | None]"""

    keys: Sequence[EntryKey]


@dataclass(frozen=True, slots=True)
class ListEntries:
    """-> list[Sequence[Entry]]: of each (place, after which name, how many at most)"""

    asked: Sequence[tuple[bytes, bytes, int]]


@dataclass(frozen=True, slots=True)
class RemoveEntries:
    """-> None: they are gone for good"""

    keys: Sequence[EntryKey]


Request = (
    Find
    | LookAt
    | MarkAndLook
    | FindVacant
    | FindSettled
    | SetMarks
    | ReadRegister
    | ReadRegisters
    | ReadBucket
    | FindSettledEach
    | FindSettledMany
    | Together
    | AskToEndMany
    | AskToEndEach
    | TryCas
    | TryCasMany
    | AppendRows
    | HintRows
    | OfferRows
    | AskToEnd
    | AskToMove
    | AskToMoveMany
    | AskInHand
    | AskMayReturn
    | Recheck
    | WriteEntries
    | FindEntries
    | ListEntries
    | RemoveEntries
)
Procedure = Generator[Request, Any, ProcedureResult]
