"""The due rows of one partition that wait for the turn of their limit keys.

They have left the due queue, and are judged when it is their turn, as all rows are in the step that sends them. So what
is cancelled meanwhile ends then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue import rows_left, sampled
from timerd.core.fairness.limit_keys import LimitKeys
from timerd.core.fairness.lines import FiledChunk, FiledNumbers
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup

# A chunk of which fewer than one in so many is left is copied: else a single row would keep the payloads of all.
SPARSE = 4
# One that is smaller is left as it is.
SMALL_ROWS = 64
RowChoice = Callable[[RowGroup], npt.NDArray[np.bool_]]


class KeyedRows:
    """`release`: takes rows that are not filed any more."""

    def __init__(self, partition: Partition, keys: LimitKeys, release: Callable[[RowGroup], None]) -> None:
        self.partition = partition
        self.limit_keys = keys
        self._release = release
        self._chunks: dict[FiledChunk, None] = {}
        self.rows = 0
        self.size_bytes = 0.0
        # How many of each limit key.
        self.counts: defaultdict[QueueKey, Counter[str]] = defaultdict(Counter)

    def file(self, queue: QueueKey, rows: RowGroup, size_bytes: int) -> None:
        """Due rows of the queue wait for their turn."""
        chunk = FiledChunk.of(self, queue, rows, size_bytes)
        self._chunks[chunk] = None
        self.rows += len(rows)
        self.size_bytes += size_bytes
        self.counts[queue].update(keys_of(rows))
        self.limit_keys.add(chunk)

    def queues(self) -> set[QueueKey]:
        return {chunk.queue for chunk in self._chunks}

    def rows_of(self, queue: QueueKey) -> int:
        return sum(chunk.count for chunk in self._chunks if chunk.queue == queue)

    def standing(self, queue: QueueKey, now_ms: int) -> tuple[int, int | None]:
        """(how many rows of the queue have not expired, the position of the first that has not)."""
        left = [rows_left(chunk.rows, chunk.numbers(), now_ms) for chunk in self._chunks if chunk.queue == queue]
        firsts = [int(chunk_ms.min()) for chunk_ms in left if len(chunk_ms)]
        return sum(map(len, left)), min(firsts, default=None)

    def bytes_of(self, queue: QueueKey) -> int:
        return int(sum(chunk.count * chunk.row_bytes for chunk in self._chunks if chunk.queue == queue))

    def sample(self, queue: QueueKey, step: int) -> list[RowGroup]:
        """About one of `step` rows of the queue."""
        found = ((chunk.rows, chunk.numbers()) for chunk in self._chunks if chunk.queue == queue)
        return [rows.select(numbers[sampled(0, len(numbers), step)]) for rows, numbers in found]

    def groups(self) -> list[RowGroup]:
        """All that waits here."""
        return [chunk.rows.select(chunk.numbers()) for chunk in self._chunks]

    def has(self, key: RowKey) -> bool:
        """There is no index: each is looked at."""
        return any(key in rows.keys() for rows in self.groups())

    def oldest_ms(self, queue: QueueKey | None = None) -> int | None:
        """Position of the earliest, of a queue or of all."""
        chunks = [chunk for chunk in self._chunks if queue in (None, chunk.queue)]
        return min((int(chunk.rows.columns["position_ms"][chunk.numbers()].min()) for chunk in chunks), default=None)

    def take_out(self, until_ms: int) -> None:
        """All rows up to that instant are filed no more."""
        for chunk in list(self._chunks):
            self._part(chunk, lambda rows: rows.columns["position_ms"] <= until_ms, self._release)

    def leave_in_store(self, queue: QueueKey, which: RowChoice) -> None:
        """These rows of the queue are forgotten: they come again from the store."""
        for chunk in [chunk for chunk in self._chunks if chunk.queue == queue]:
            self._part(chunk, which, lambda _: None)

    def pull(self, which: RowChoice) -> list[RowGroup]:
        """Takes these rows out, whose turn does not matter: each group is of one queue."""
        pulled: list[RowGroup] = []
        for chunk in list(self._chunks):
            self._part(chunk, which, pulled.append)
        return pulled

    def tidy(self) -> None:
        """Copies what is left of chunks that are nearly empty, so that the rest of them is let go."""
        for chunk in list(self._chunks):
            if len(chunk.left) >= SMALL_ROWS and chunk.count * SPARSE < len(chunk.left):
                size_bytes = int(chunk.count * chunk.row_bytes)
                self._part(chunk, _all, partial(self._file_again, chunk.queue, size_bytes))

    def drop_all(self) -> None:
        """The partition is held no more."""
        for chunk in list(self._chunks):
            self._part(chunk, _all, lambda _: None)

    def lose(self, chunk: FiledChunk, row: int) -> None:
        counts, limit_key = self.counts[chunk.queue], chunk.limit_key(row)
        if counts[limit_key] == 1:
            del counts[limit_key]
        else:
            counts[limit_key] -= 1
        self._less(chunk, 1)

    def give_back(self, chunk: FiledChunk) -> None:
        self._part(chunk, _all, self._release)

    def _file_again(self, queue: QueueKey, size_bytes: int, rows: RowGroup) -> None:
        self.file(queue, rows.compact(), size_bytes)

    def _part(self, chunk: FiledChunk, which: RowChoice, to: Callable[[RowGroup], None]) -> None:
        """Rows of a chunk leave it without a turn."""
        numbers: FiledNumbers = chunk.numbers()
        numbers = numbers[which(chunk.rows.select(numbers))]
        if not len(numbers):
            return
        np.frombuffer(chunk.left, np.uint8)[numbers] = 0
        chunk.count -= len(numbers)
        rows = chunk.rows.select(numbers)
        limit_keys = keys_of(rows)
        self._lose(chunk, limit_keys)
        to(rows)
        self.limit_keys.lose(chunk.queue, limit_keys)

    def _lose(self, chunk: FiledChunk, limit_keys: Counter[str]) -> None:
        counts = self.counts[chunk.queue]
        counts.subtract(limit_keys)
        for limit_key in [key for key in limit_keys if not counts[key]]:
            del counts[limit_key]
        self._less(chunk, limit_keys.total())

    def _less(self, chunk: FiledChunk, rows: int) -> None:
        self.rows -= rows
        self.size_bytes -= rows * chunk.row_bytes
        if not chunk.count:
            del self._chunks[chunk]


def keys_of(rows: RowGroup) -> Counter[str]:
    """How many rows of each limit key."""
    found: Counter[str] = Counter()
    for kind, count in enumerate(np.bincount(rows.columns["template"]).tolist()):
        if count:
            found[rows.templates[kind].limit_key] += count
    return found


def _all(rows: RowGroup) -> npt.NDArray[np.bool_]:
    return np.ones(len(rows), np.bool_)
