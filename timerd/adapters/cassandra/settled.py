"""Settle records: one row each, immutable. Of two writings of the same name the first counts."""

from __future__ import annotations

from collections.abc import Sequence, Set

from timerd.adapters.cassandra.driver import READS, ROWS, Driver
from timerd.adapters.cassandra.waiting import every
from timerd.adapters.cassandra.written import Written
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord

_PLACE = "scope = ? AND bucket_ms = ? AND shard = ?"
# A record of a busy second has a few hundred kilobytes.
_RECORDS = 32


class SettledTable:
    def __init__(self, driver: Driver, written: Written) -> None:
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
        self._drop = driver.prepare(f"DELETE FROM settled WHERE {_PLACE}", ROWS)

    async def add(self, records: Sequence[SettleRecord]) -> None:
        await every(
            self._driver.write(self._add, (*r.partition, r.token, r.sequence, self._written.next(), r.pack()))
            for r in records
        )

    async def read(self, partition: Partition, known: Set[tuple[int, int]]) -> list[SettleRecord]:
        """In the order of (token, sequence)."""
        found: dict[tuple[int, int], bytes] = {}
        for token, sequence, packed in await self._driver.rows(self._all, partition):
            found.setdefault((token, sequence), packed)
        return [SettleRecord.unpack(partition, *name, packed) for name, packed in found.items() if name not in known]

    async def drop(self, partition: Partition) -> None:
        await self._driver.write(self._drop, partition)
