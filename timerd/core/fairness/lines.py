"""The due rows of one limit key, over all partitions: arrays of row numbers in the order of firing, and a cursor each.

A row costs some twenty bytes here beside its columns and payload, and a key that has something due some hundreds; a key
without any costs nothing.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import numpy as np
import numpy.typing as npt

from timerd.core.taken import QueueKey
from timerd.core.urgency import orders
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup

FiledNumbers = npt.NDArray[np.intp]
FiledOrder = npt.NDArray[np.int64]
_RUNS = count()


class FiledHome(Protocol):
    """Where rows wait that are filed by their limit keys: one partition."""

    partition: Partition

    def lose(self, chunk: FiledChunk, row: int) -> None:
        """That row of the chunk waits there no more."""
        ...

    def give_back(self, chunk: FiledChunk) -> None:
        """What is left of the chunk waits with the rows that are not filed."""
        ...


@dataclass(slots=True, eq=False)
class FiledChunk:
    """Rows that were filed together. `order`: by what each goes within its key. `left`: a one for each row that waits
    here still."""

    home: FiledHome
    queue: QueueKey
    rows: RowGroup
    order: FiledOrder
    left: bytearray
    count: int
    row_bytes: float

    @classmethod
    def of(cls, home: FiledHome, queue: QueueKey, rows: RowGroup, size_bytes: int) -> FiledChunk:
        # That never changes here: what is on demand stays as far ahead as it was when it came due.
        positions_ms = rows.columns["position_ms"]
        order = orders(rows.templates, rows.columns["template"], positions_ms, positions_ms)
        return cls(home, queue, rows, order, bytearray(b"\1" * len(rows)), len(rows), size_bytes / len(rows))

    def limit_key(self, row: int) -> str:
        return self.rows.template_of(row).limit_key

    def numbers(self) -> FiledNumbers:
        """Of the rows that are left."""
        return np.flatnonzero(np.frombuffer(self.left, np.uint8))

    def remove(self, row: int) -> None:
        self.left[row] = 0
        self.count -= 1
        self.home.lose(self, row)


@dataclass(slots=True, eq=False)
class RowRun:
    """Rows of a chunk in the order that `by` says of each; those before `cursor` are gone."""

    chunk: FiledChunk
    rows: FiledNumbers
    by: FiledOrder
    cursor: int = 0

    def head(self) -> int | None:
        """The first row that is left; None: none is."""
        left, rows = self.chunk.left, self.rows
        while self.cursor < len(rows):
            if left[row := int(rows[self.cursor])]:
                return row
            self.cursor += 1
        return None


@dataclass(slots=True, eq=False)
class RowLine:
    """Runs, of which the one with the least head is next."""

    runs: list[tuple[int, int, RowRun]] = field(default_factory=list)

    def add(self, run: RowRun) -> None:
        if len(run.rows):
            heapq.heappush(self.runs, (int(run.by[run.rows[0]]), next(_RUNS), run))

    def head(self) -> tuple[FiledChunk, int] | None:
        """Its next row; None: nothing waits."""
        while self.runs:
            order, number, run = self.runs[0]
            row = run.head()
            if row is None:
                heapq.heappop(self.runs)
            elif (now := int(run.by[row])) != order:
                heapq.heapreplace(self.runs, (now, number, run))
            else:
                return run.chunk, row
        return None

    def cut(self, upto: int) -> FiledNumbers:
        """The rows of the run that is next up to that; they wait here no more."""
        run = self.runs[0][2]
        rest = run.rows[run.cursor :]
        past = int(np.searchsorted(run.by[rest], upto, side="right"))
        run.cursor += past
        return rest[:past]


@dataclass(slots=True, eq=False)
class KeyLine(RowLine):
    """One key. `tag`: the key of the least one is next; of several, that of the least `place`. `room`: what it may
    still send in the take of that number, and `picked` what it has been given in it. `is_shared`: nothing but its share
    keeps it back. `weight`: how many rows it sends for one of a key of weight one. `held_by`: the limit with a name for
    which it waited last; empty: for a rule of the queue."""

    limit_key: str = ""
    tag: float = 0.0
    place: int = 0
    rows: int = 0
    is_ready: bool = False
    is_shared: bool = False
    take: int = 0
    room: int = 0
    picked: int = 0
    weight: float = 1.0
    held_by: str = ""

    def file(self, run: RowRun) -> None:
        """Rows of the key wait for its turns."""
        self.add(run)
        self.rows += len(run.rows)


def runs_of(chunk: FiledChunk) -> dict[str, RowRun]:
    """Its rows by their limit keys."""
    names = [template.limit_key for template in chunk.rows.templates]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    kinds = np.array([numbers[name] for name in names])[chunk.rows.columns["template"]]
    # Stable sorts: what is of the same instant stays in the order in which it would have fired.
    order = np.argsort(chunk.order, kind="stable")
    order = order[np.argsort(kinds[order], kind="stable")]
    ends = np.flatnonzero(np.diff(kinds[order])) + 1
    parts = np.split(order, ends)
    by_number = list(numbers)
    return {by_number[int(kinds[part[0]])]: RowRun(chunk, part, chunk.order) for part in parts}
