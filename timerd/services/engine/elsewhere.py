"""Failures of deliveries whose rows are not open where they were sent from: looked up, and settled where they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count

from timerd.core.holding import Asked, Phase
from timerd.core.late_failure import (
    again_waiting,
    end_all_waiting,
    end_waiting,
    free_position,
    has_ended_as_another,
    may_leave,
    waits_for,
)
from timerd.core.late_record import tell_end
from timerd.core.lookup import Located, locate
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended
from timerd.model.errors import Unavailable
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.ports import Store
from timerd.services.holding.driving import drive
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.tickets import NoLongerHeld

# A row that is being written, loaded or moved is looked for so often: about a second.
LOOKS = 40
LOOK_S = 0.025
# After a holder did not answer, or has changed.
SAY_AGAIN_MS = 500
Waiting = tuple[PartitionMachine, RowKey, RowGroup]
# None: there is nothing to wait for.
Durable = asyncio.Future[None] | None


class Elsewhere:
    """Of one scheduler."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler = scheduler
        self._store = store

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

    async def look(self, partition: Partition, key: RowKey) -> Located | None:
        """The row that waits in the place of this delivery. None: it ended, or another attempt took over."""
        task = await self.task_of(partition, key)
        here = await drive(locate(task), self._scheduler.procedures) if task is not None else None
        if here is None or not waits_for(here, key):
            return None
        machine = self._scheduler.machines.get(here.place.partition)
        return None if machine is not None and machine.rows.is_open(here.place.key) else here

    def end_in_memory(self, partition: Partition, key: RowKey) -> Coroutine[None, None, bool] | None:
        """An ack of a row that was carried on, or never sent again, since its delivery, or whose record was written
        before the worker heard of it: thousands of them come at once after a restart, and none needs the store. None:
        not all of its way is known here and durable, or it does not wait there. What is answered is durable: False
        where it had ended before."""
        while (machine := self._scheduler.machines.get(partition)) is not None and machine.phase is Phase.HOT:
            asked, known = machine.ask(key)
            if asked is Asked.ENDED and machine.log.settled.get(key) is Outcome.ACKED:
                # By a record that this holder read or makes, so whoever comes after it reads that as well.
                return self._is_durable(machine, machine.log.last_ticket, has_ended=False)
            # A cancel while it was in hand has stopped its retries; it was done nevertheless.
            is_stopped = known in (Outcome.CANCELLED, Outcome.PURGED) and machine.log.settled.get(key) is None
            if may_leave(machine, key) or (is_stopped and key.digest not in machine.rows.suspended):
                return self._is_durable(machine, end_waiting(machine, key, Outcome.ACKED), has_ended=True)
            carry = machine.log.carries.get(key) if known is Outcome.CARRIED else None
            if carry is None or not machine.log.has_left(key):
                return None
            partition, key = carry.target, RowKey(carry.position_ms, key.digest, carry.version)
        return None

    async def until_left(self, partition: Partition, key: RowKey) -> None:
        """Of a row that goes on elsewhere: until that is durable, not all of its way is known."""
        machine = self._scheduler.machines.get(partition)
        if machine is not None and not machine.log.has_left(key):
            with suppress(NoLongerHeld):
                await self._durable(machine, machine.log.last_ticket)

    def end_all_in_memory(self, partition: Partition, keys: Sequence[RowKey]) -> tuple[set[RowKey], Durable]:
        """As `end_in_memory`, of those that wait in that very place; and when that is durable."""
        machine = self._scheduler.machines.get(partition)
        if machine is None or machine.phase is not Phase.HOT or not (ended := end_all_waiting(machine, keys)):
            return set(), None
        return ended, self._durable(machine, machine.log.ticket)

    async def again(self, item: Again) -> bool:
        """What cannot be reached in time is left to the end of the lease, when the task is delivered again anyway. A
        worker that was silent may have come back with it meanwhile, and been told that it has it still: False."""
        while (waiting := await self._waiting(item.partition, item.key)) is not None:
            machine, key, rows = waiting
            position_ms = await drive(free_position(machine.partition, item), self._scheduler.procedures)
            if self._scheduler.held.came_since(item.key, item.failed_at_ms):
                return False
            if may_leave(machine, key):
                ticket = again_waiting(machine, key, rows, item._replace(position_ms=position_ms))
                await self._durable(machine, ticket)
                break
        return True

    async def end(self, item: Ended) -> bool:
        """Whether its row waited somewhere and has ended now, or had by the record of this very end. As long as it
        waits, it is tried again."""
        waiting = await self._waiting(item.partition, item.key, patient=True)
        if waiting is None:
            return item.outcome is Outcome.DEAD and await self._has_died(item)
        machine, key, _ = waiting
        await self._durable(machine, end_waiting(machine, key, item.outcome))
        return True

    async def _has_died(self, item: Ended) -> bool:
        """Its record was written, and the lease was over before that was known. Who holds the row now may have read the
        records before: then he is told, or has sent it again."""
        task = await self.task_of(item.partition, item.key)
        here = await drive(locate(task, durable=True), self._scheduler.procedures) if task is not None else None
        if here is None or here.ending.outcome is not Outcome.DEAD or here.place.key != item.key:
            return False
        said = await drive(tell_end(here), self._scheduler.procedures)
        if said is Asked.SILENT:
            raise silent()
        return said is not Asked.WAITING

    async def _waiting(self, partition: Partition, key: RowKey, *, patient: bool = False) -> Waiting | None:
        """A place that nobody holds yet is held a little earlier than it would be."""
        for _ in count() if patient else range(LOOKS):
            here = await self.look(partition, key)
            if here is None or here.rows is None:
                return None
            machine = self._scheduler.machines.get(here.place.partition)
            if machine is None:
                self._scheduler.hold(here.place.partition)
            elif has_ended_as_another(machine, here):
                return None
            elif here.written and may_leave(machine, here.place.key):
                return machine, here.place.key, here.rows
            await asyncio.sleep(LOOK_S)
        return None

    async def _is_durable(self, machine: PartitionMachine, ticket: int, *, has_ended: bool) -> bool:
        await self._durable(machine, ticket)
        return has_ended

    def _durable(self, machine: PartitionMachine, ticket: int) -> asyncio.Future[None]:
        durable = self._scheduler.held.durable(machine, ticket)
        self._scheduler.held.settle_soon(machine)
        return durable


def silent() -> Unavailable:
    return Unavailable(
        "The instance that holds the task's partition does not answer: say it again in a moment.",
        "HOLDER_SILENT",
        retry_after_ms=SAY_AGAIN_MS,
    )
