"""What passes between the partition machines and the delivery machine: batches of due rows, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from timerd.model.attempts import AttemptEnd
from timerd.model.identity import RowKey, row_keys
from timerd.model.ordering import OrderFence
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome

# An order key behind all others.
LAST = 1 << 62


class QueueKey(NamedTuple):
    namespace: str
    queue: str

    @property
    def is_internal(self) -> bool:
        """Whether an instance made it for itself. Nobody is shown such a queue, and no caller can name it: namespaces
        have no brackets."""
        return self.namespace.startswith("(")


# Of the tasks that an instance gives itself (services/health/canary.py).
CANARY = QueueKey("(canary)", "(canary)")
# Of the ticks of schedules (services/schedules/ticking.py).
TICKS = QueueKey("(schedules)", "(ticks)")
# Of the slots of cycles whose members timerd keeps (services/schedules/slot_work.py).
SLOTS = QueueKey("(schedules)", "(slots)")
# Of those of backfills: an instance of a release that knows none leaves them to others.
BACKFILL_TICKS = QueueKey("(schedules)", "(backfill ticks)")


@dataclass(slots=True)
class Taken:
    """Due rows of one queue and one partition in the order of firing: fire and send are one step, so they are open
    until `Ended` or `Again` says otherwise. The lists have one entry a row. They are made once, for the partition and
    for the delivery both read each row's key field by field as long as it is open. `sending`: see AckToken."""

    partition: Partition
    token: int
    rows: RowGroup
    digests: Sequence[bytes]
    positions: list[int]
    versions: list[int]
    sending: int = 0
    # Of tasks of ordering keys in a cluster, by digest, as long as they are sent.
    fences: Mapping[bytes, OrderFence] | None = None

    @classmethod
    def of(cls, partition: Partition, token: int, rows: RowGroup) -> Taken:
        """All of the rows."""
        columns = rows.columns
        return cls(partition, token, rows, rows.digests(), columns["position_ms"].tolist(), columns["version"].tolist())

    def __len__(self) -> int:
        return len(self.digests)

    def key(self, row: int) -> RowKey:
        return RowKey(self.positions[row], self.digests[row], self.versions[row])

    def part(self, rows: slice | npt.NDArray[np.intp]) -> Taken:
        """Some rows of it."""
        some = self.rows.select(rows)
        if isinstance(rows, slice):
            digests, positions, versions = self.digests[rows], self.positions[rows], self.versions[rows]
            return Taken(self.partition, self.token, some, digests, positions, versions, self.sending, self.fences)
        which: list[int] = rows.tolist()
        digests = [self.digests[r] for r in which]
        positions, versions = [self.positions[r] for r in which], [self.versions[r] for r in which]
        return Taken(self.partition, self.token, some, digests, positions, versions, self.sending, self.fences)


class Ended(NamedTuple):
    """A delivery that is over for good: ACKED, DEAD, EXPIRED."""

    partition: Partition
    key: RowKey
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AckedRows:
    """As an `Ended` of ACKED for each, of rows that were sent together and lie side by side: one entry a row."""

    partition: Partition
    positions: list[int]
    digests: Sequence[bytes]
    versions: list[int]

    def __len__(self) -> int:
        return len(self.digests)

    def each(self) -> Iterator[Ended]:
        """One by one, without a call of Python's for each: half the time."""
        keys = row_keys(self.positions, self.digests, self.versions)
        parts = zip(repeat(self.partition), keys, repeat(Outcome.ACKED), strict=False)
        return cast(Iterator[Ended], map(tuple.__new__, repeat(Ended), parts))


class Again(NamedTuple):
    """A delivery that failed: the row goes on as the next attempt at `position_ms` (a carry of reason RETRY)."""

    partition: Partition
    key: RowKey
    position_ms: int
    failed_at_ms: int
    last_error: str
    end: int = AttemptEnd.FAILED
    sent_ms: int = 0
    worker: str = ""
    progress: str = ""


class OpenDelivery(NamedTuple):
    """What a worker has now, and until when."""

    partition: Partition
    key: RowKey
    lease_until_ms: int
