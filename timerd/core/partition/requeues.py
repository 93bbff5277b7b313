"""Where rows of a partition were requeued to, and which of those requeues may be incomplete.

A record that requeues a row is durable before the row is written at its new place. A holder that was replaced in
between leaves the row in neither, so the next holder writes it again when it meets the row at its old place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from timerd.core.partition.carry import backlog_of, carried_row
from timerd.core.partition.open_records import CarriedGroup
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry


class Requeues:
    """Those of one partition, by this holder and earlier ones."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._to: dict[RowKey, Carry] = {}
        # Requeued by earlier holders, the rows maybe not written yet -> number of the record.
        self._incomplete: dict[RowKey, int] = {}
        # Places of rows that are written again.
        self._redone: set[tuple[Partition, RowKey]] = set()

    def add(self, carries: Iterable[Carry]) -> None:
        self._to.update((carry.source, carry) for carry in carries)

    def load(self, carries: Iterable[Carry], offloaded: Iterable[RowKey], record: int) -> None:
        """A record of an earlier holder says that these rows went on."""
        sources = {carry.source: carry for carry in carries}
        self._to |= sources
        self._incomplete.update(dict.fromkeys([*sources, *offloaded], record))

    def to(self, key: RowKey) -> Carry | None:
        """Where the row went."""
        return self._to.get(key)

    @property
    def has_incomplete(self) -> bool:
        """Whether rows that an earlier holder requeued are still to be met."""
        return bool(self._incomplete)

    def meet(self, rows: RowGroup) -> Iterator[tuple[int, CarriedGroup]]:
        """Of loaded rows those that are to be written again, by record. Copies went on as one row."""
        for n, key in enumerate(rows.keys() if self._incomplete else ()):
            record = self._incomplete.pop(key, None)
            if record is None:
                continue
            group = self._requeued(rows, n, key)
            place = group[0], group[1].keys()[0]
            if place not in self._redone:
                self._redone.add(place)
                yield record, group

    def all_met(self) -> None:
        """Every row was met: what was not met is written."""
        self._incomplete.clear()
        self._redone.clear()

    def forget_below(self, verified_ms: int) -> None:
        for key in [key for key in self._to if key.position_ms < verified_ms]:
            del self._to[key]

    def _requeued(self, rows: RowGroup, n: int, key: RowKey) -> CarriedGroup:
        carry = self._to.get(key)
        if carry is not None:
            return carry.target, carried_row(rows, n, self._partition, carry)
        row = rows.one(n)
        return backlog_of(row, self._partition), row
