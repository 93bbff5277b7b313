"""Where the row of a delivery is by now: it may have been carried on, or moved, since it was sent."""

from __future__ import annotations

from timerd.core.protocol import Located, locate, waits_for
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.ports import Store
from timerd.services.holding.driving import drive
from timerd.services.holding.held import Machines
from timerd.services.holding.procedure_runner import ProcedureRunner


class RowFinder:
    """Reads the store, and knows the partitions of one instance."""

    def __init__(self, store: Store, machines: Machines, procedures: ProcedureRunner) -> None:
        self._store = store
        self._machines = machines
        self._procedures = procedures

    async def task_of(self, partition: Partition, key: RowKey) -> TaskId | None:
        """The place of a delivery is where its row was; its home is found from there by the carry chain backwards, so
        the row's own extra tells the home."""
        found = (await self._store.find(partition, [(key.position_ms, key.digest)]))[0]
        if not len(found.rows):
            return None
        extra = found.rows.extra_of(0)
        template = found.rows.template_of(0)
        home_ms = extra.home_position_ms if extra.home_position_ms >= 0 else key.position_ms
        shard = extra.home_shard if extra.home_position_ms >= 0 else partition.shard
        prefix, item = key.digest[:12], int.from_bytes(key.digest[12:], "big")
        return TaskId(home_ms, shard, template.scope, template.priority, prefix, item, b"")

    async def owner_of(self, partition: Partition, key: RowKey) -> tuple[QueueKey, str] | None:
        """The queue and the limit key of a delivery's task, by the row that was sent. None: it is there no more."""
        found = (await self._store.find(partition, [(key.position_ms, key.digest)]))[0]
        if not len(found.rows):
            return None
        template = found.rows.template_of(0)
        return QueueKey(template.namespace, template.queue), template.limit_key

    async def look(self, partition: Partition, key: RowKey) -> Located | None:
        """The row that waits in the place of this delivery. None: it ended, or another attempt took over."""
        task = await self.task_of(partition, key)
        here = await drive(locate(task), self._procedures) if task is not None else None
        if here is None or not waits_for(here, key):
            return None
        machine = self._machines.get(here.place.partition)
        return None if machine is not None and machine.is_open(here.place.key) else here
