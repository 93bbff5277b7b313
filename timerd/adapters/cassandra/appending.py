"""Append: announce the buckets, write the rows, then read what the caller must know of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.adapters.cassandra.catalogue import Catalogue
from timerd.adapters.cassandra.inserts import ControlFacts, Inserts
from timerd.adapters.cassandra.registers import CassandraRegisters
from timerd.adapters.cassandra.tasks import TaskTable
from timerd.adapters.cassandra.waiting import every, some_at_a_time
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.ports import Append, Appended

RowsPart = tuple[Partition, RowGroup]
# Of one message, under way: a message over a month has thousands of partitions.
_MOST_PARTS = 100


class Appending:
    def __init__(
        self,
        tasks: TaskTable,
        catalogue: Catalogue,
        registers: CassandraRegisters,
        written: WriteNumbers,
    ) -> None:
        self._catalogue = catalogue
        self._registers = registers
        self._inserts = Inserts(tasks, self._facts, written)

    async def append(self, messages: Sequence[Append]) -> list[Appended]:
        return await every(self._append(message) for message in messages)

    async def settle(self) -> None:
        await self._inserts.settle()

    async def _append(self, message: Append) -> Appended:
        parts = _parts(message)
        await self._announce([partition for partition, _ in parts])
        facts = await some_at_a_time(lambda part: self._inserts.add(*part), parts, _MOST_PARTS)
        return _appended(message, dict(zip([p for p, _ in parts], facts, strict=True)))

    async def _announce(self, partitions: Sequence[Partition]) -> None:
        """Whatever became of it: no row was written yet."""
        try:
            await self._catalogue.announce(partitions)
        except StoreUnknown as error:
            raise StoreUnavailable(f"{error} Nothing was stored.", "STORE_UNAVAILABLE", retry_after_ms=1_000) from error

    async def _facts(self, partition: Partition) -> ControlFacts:
        """No control row: then the flag of the bucket says whether it is closed."""
        control = await self._registers.control(partition)
        finishing = control is None and bool(await self._catalogue.finishing([partition]))
        return ControlFacts(control, finishing)


def _parts(message: Append) -> list[RowsPart]:
    return [*message.groups, *(message.spread.parts() if message.spread else ())]


def _appended(message: Append, facts: dict[Partition, ControlFacts]) -> Appended:
    """Of a spread only those partitions are named of which there is something to know."""
    asked = {partition for partition, _ in message.groups}
    controls = {p: f.control for p, f in facts.items() if p in asked or f.control is not None}
    finishing = frozenset(p for p, f in facts.items() if f.is_finishing)
    return Appended(controls, {}, finishing)
