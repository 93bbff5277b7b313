"""What passes between the partition machines and the delivery machine: batches of due rows, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome

# An order key behind all others.
LAST = 1 << 62


class QueueKey(NamedTuple):
    namespace: str
    queue: str


# Of the tasks that an instance gives itself (services/health/canary.py). No caller can name it: namespaces have no
# brackets.
CANARY = QueueKey("(canary)", "(canary)")


@dataclass(slots=True)
class Taken:
    """Due rows of one queue and one partition in the order of firing: fire and send are one step, so they are open
    until `Ended` or `Again` says otherwise. `digests` has one entry a row."""

    partition: Partition
    token: int
    rows: RowGroup
    digests: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.digests)


class Ended(NamedTuple):
    """A delivery that is over for good: ACKED, DEAD, EXPIRED."""

    partition: Partition
    key: RowKey
    outcome: Outcome


class Again(NamedTuple):
    """A delivery that failed: the row goes on as the next attempt at `position_ms` (a carry of reason RETRY)."""

    partition: Partition
    key: RowKey
    position_ms: int
    failed_at_ms: int
    last_error: str
