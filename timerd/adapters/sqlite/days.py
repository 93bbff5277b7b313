"""The catalogue: which buckets exist, are finishing, are finished. One row a day and scope, one bit a bucket.

A bulk insert over a month announces thousands of buckets; as bits they cost 30 rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from timerd.adapters.sqlite.inserts import insert_rows
from timerd.model.partition import BUCKET_MS, Partition
from timerd.ports import BucketEntry

DAY_MS = 86_400_000
DAY_BUCKETS = DAY_MS // BUCKET_MS
_BYTES = DAY_BUCKETS // 8
# Days of scopes that the writer keeps in mind, some 400 bytes each: queues come and go.
_MOST_REMEMBERED = 20_000
PRESENT, FINISHING, FINISHED = range(3)
# Days of which a bucket is left. By that index, for a year of thousands of queues has a million others.
_PRESENT = f"""SELECT day, scope, present, finishing, finished FROM days INDEXED BY days_present
    WHERE present <> zeroblob({_BYTES})"""


def day_of(position_ms: int) -> int:
    """Ordinal of the day since the epoch (UTC)."""
    return position_ms // DAY_MS


class CatalogueDays:
    """What the writer knows of the catalogue, read when first asked for and written when a commit ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[int, int], list[int]] = {}
        self._changed: set[tuple[int, int]] = set()

    def announce(self, partition: Partition) -> None:
        self.set(partition.scope, partition.bucket_ms, PRESENT)

    def announce_all(self, scope: int, positions_ms: npt.NDArray[np.int64]) -> None:
        """The buckets of rows anywhere, a day at a time."""
        buckets = positions_ms // BUCKET_MS
        days, places = np.unique(buckets // DAY_BUCKETS, return_inverse=True)
        present = np.zeros((len(days), DAY_BUCKETS), bool)
        present[places, buckets % DAY_BUCKETS] = True
        for day, packed in zip(days.tolist(), np.packbits(present, axis=1, bitorder="little"), strict=True):
            bits = self._bits(day, scope)
            more = bits[PRESENT] | int.from_bytes(packed.tobytes(), "little")
            if more != bits[PRESENT]:
                bits[PRESENT] = more
                self._changed.add((day, scope))

    def set(self, scope: int, bucket_ms: int, *fields: int) -> None:
        day, place = divmod(bucket_ms // BUCKET_MS, DAY_BUCKETS)
        bits = self._bits(day, scope)
        for field in fields:
            if not bits[field] >> place & 1:
                bits[field] |= 1 << place
                self._changed.add((day, scope))

    def dropped(self, partition: Partition) -> None:
        """A finished bucket leaves the catalogue; its flags stay."""
        day, place = divmod(partition.bucket_ms // BUCKET_MS, DAY_BUCKETS)
        bits = self._bits(day, partition.scope)
        if bits[FINISHED] >> place & bits[PRESENT] >> place & 1:
            bits[PRESENT] &= ~(1 << place)
            self._changed.add((day, partition.scope))

    def is_finishing(self, partition: Partition) -> bool:
        day, place = divmod(partition.bucket_ms // BUCKET_MS, DAY_BUCKETS)
        return bool(self._bits(day, partition.scope)[FINISHING] >> place & 1)

    def finishing(self, first: Partition, last: Partition) -> list[Partition]:
        """Those with the flag, of all between two of one scope and shard, as the tables have it: after `flush`."""
        query = "SELECT day, finishing FROM days WHERE day BETWEEN ? AND ? AND scope = ? AND finishing <> ?"
        limits = day_of(first.bucket_ms), day_of(last.bucket_ms), first.scope, bytes(_BYTES)
        found: list[Partition] = []
        for day, finishing in self._connection.execute(query, limits):
            flags = np.unpackbits(np.frombuffer(finishing, np.uint8), bitorder="little")
            for place in np.flatnonzero(flags).tolist():
                found.append(first._replace(bucket_ms=(day * DAY_BUCKETS + place) * BUCKET_MS))
        return [partition for partition in found if first <= partition <= last]

    def flush(self) -> None:
        rows = [(*key, *(bits.to_bytes(_BYTES, "little") for bits in self._known[key])) for key in self._changed]
        insert_rows(self._connection, "INSERT OR REPLACE INTO days", rows)
        self._changed.clear()
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()

    def forget(self) -> None:
        self._known.clear()
        self._changed.clear()

    def _bits(self, day: int, scope: int) -> list[int]:
        known = self._known.get((day, scope))
        if known is None:
            query = "SELECT present, finishing, finished FROM days WHERE day = ? AND scope = ?"
            row = self._connection.execute(query, (day, scope)).fetchone()
            known = [int.from_bytes(bits, "little") for bits in row] if row else [0, 0, 0]
            self._known[day, scope] = known
        return known


def oldest_open_ms(connection: sqlite3.Connection, default_ms: int) -> int:
    """The oldest bucket of any scope that is not finished; `default_ms` where there is none before it."""
    oldest_ms = default_ms
    for day, *row in connection.execute(f"{_PRESENT} AND present <> finished ORDER BY day"):
        # Of the day of the oldest one each scope is looked at.
        if day > day_of(oldest_ms):
            break
        oldest_ms = min([oldest_ms, *(entry.bucket_ms for entry in _entries(day, *row) if not entry.finished)])
    return oldest_ms


def read_catalogue(connection: sqlite3.Connection, scope: int | None, lo_ms: int, hi_ms: int) -> list[BucketEntry]:
    """Oldest first."""
    query = f"{_PRESENT} AND day BETWEEN ? AND ?"
    limits = [day_of(lo_ms), day_of(hi_ms - 1)]
    rows = connection.execute(query if scope is None else f"{query} AND scope = {scope:d}", limits)
    found = [entry for row in rows for entry in _entries(*row) if lo_ms <= entry.bucket_ms < hi_ms]
    return sorted(found, key=lambda entry: (entry.bucket_ms, entry.scope))


def _entries(day: int, scope: int, *fields: bytes) -> Iterator[BucketEntry]:
    present, finishing, finished = (int.from_bytes(bits, "little") for bits in fields)
    # The backlogs of thousands of queues have a bucket or two a day.
    while present:
        lowest = present & -present
        present ^= lowest
        bucket_ms = (day * DAY_BUCKETS + lowest.bit_length() - 1) * BUCKET_MS
        yield BucketEntry(scope, bucket_ms, 1, bool(finishing & lowest), bool(finished & lowest))
