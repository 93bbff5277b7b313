"""Settle records: one row each, immutable. Of two writings of the same name the first counts.

Who knows some of a partition's records asks for the names of all of them first: after a crash it is asked about again
and again, and its records are a hundred times as large as their names.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Sequence, Set

from timerd.adapters.cassandra.driver import READS, ROWS, Driver
from timerd.adapters.cassandra.waiting import every
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord

_PLACE = "scope = ? AND bucket_ms = ? AND shard = ?"
# A record of a busy second has a few hundred kilobytes.
_RECORDS = 32
# More new ones than this are read with all the others, page by page.
_FEW = 64
RecordName = tuple[int, int]


class SettledTable:
    def __init__(self, driver: Driver, written: WriteNumbers) -> None:
        self._driver = driver
        self._written = written
        self._add = driver.prepare(
            "INSERT INTO settled (scope, bucket_ms, shard, fencing_token, sequence, written, packed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            ROWS,
        )
        self._all = driver.prepare(
            f"SELECT fencing_token, sequence, packed FROM settled WHERE {_PLACE}", READS, _RECORDS
        )
        self._names = driver.prepare(f"SELECT fencing_token, sequence FROM settled WHERE {_PLACE}", READS)
        self._one = driver.prepare(
            f"SELECT packed FROM settled WHERE {_PLACE} AND fencing_token = ? AND sequence = ? LIMIT 1", READS
        )
        self._drop = driver.prepare(f"DELETE FROM settled WHERE {_PLACE}", ROWS)

    async def add(self, records: Sequence[SettleRecord]) -> None:
        await every(
            self._driver.write(self._add, (*r.partition, r.token, r.sequence, self._written.next(), r.pack()))
            for r in records
        )

    async def read(self, partition: Partition, known: Set[RecordName]) -> list[SettleRecord]:
        """In the order of (token, sequence)."""
        if known:
            names = dict.fromkeys(map(tuple, await self._driver.rows(self._names, partition)))
            new = [name for name in names if name not in known]
            if len(new) <= _FEW:
                return [r for found in await gather(*(self._read_one(partition, name) for name in new)) for r in found]
        found: dict[RecordName, bytes] = {}
        for token, sequence, packed in await self._driver.rows(self._all, partition):
            found.setdefault((token, sequence), packed)
        return [SettleRecord.unpack(partition, *name, packed) for name, packed in found.items() if name not in known]

    async def _read_one(self, partition: Partition, name: RecordName) -> list[SettleRecord]:
        """None, if the partition has been dropped since."""
        rows = await self._driver.rows(self._one, (*partition, *name))
        return [SettleRecord.unpack(partition, *name, packed) for (packed,) in rows]

    async def drop(self, partition: Partition) -> None:
        await self._driver.write(self._drop, partition)
