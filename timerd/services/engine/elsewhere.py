"""Failures of deliveries whose rows are not open where they were sent from: looked up, and settled where they wait."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from timerd.core.partition import FOR_GOOD, Asked, PartitionMachine, Phase
from timerd.core.protocol import HolderAnswer, Located, free_position, locate, tell_end
from timerd.core.taken import Again, Ended
from timerd.model.errors import Unavailable
from timerd.model.identity import RowKey, generation_of
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.ports import Store
from timerd.services.engine.verbs import ENDED, State, marked
from timerd.services.holding.driving import drive
from timerd.services.holding.log_waits import NoLongerHeld
from timerd.services.holding.scheduler import Scheduler

# A row that is being written, loaded or moved is looked for so often: about a second.
LOOKS = 40
LOOK_S = 0.025
# After a holder did not answer, or has changed.
SAY_AGAIN_MS = 500
SENT_ONCE_MORE = "Another worker has been sent the task since, and may end it in another way: say it again in a moment."
Waiting = tuple[PartitionMachine, RowKey, RowGroup]


class Known(NamedTuple):
    """Of a row that the machine holds. `outcome` None: it waits there."""

    machine: PartitionMachine
    key: RowKey
    outcome: Outcome | None


class Elsewhere:
    """Of one scheduler."""

    def __init__(self, scheduler: Scheduler, store: Store) -> None:
        self._scheduler = scheduler
        self._store = store
        self._finder = scheduler.finder

    def in_memory(self, partition: Partition, key: RowKey) -> Known | None:
        """Where a row is that was carried on, or never sent again, since its delivery, or whose record was written
        before the worker heard of it: thousands of them are acked at once after a restart, and none needs the store.
        None: not all of its way is known here and durable, or a worker has it."""
        while (machine := self._scheduler.machines.get(partition)) is not None and machine.phase is Phase.HOT:
            asked, known = machine.ask(key)
            recorded = machine.recorded(key)
            # It may be done nevertheless. Where a cancel came before anybody knew that it was in hand, that cancel was
            # answered CANCELLED, and stands.
            is_stopped = known in (Outcome.CANCELLED, Outcome.PURGED) and machine.is_stopped(key)
            if machine.may_leave(key) or (is_stopped and not machine.is_blocked(key.digest)):
                return Known(machine, key, None)
            if asked is Asked.ENDED and recorded in FOR_GOOD:
                # By a record that this holder read or makes, so the next holder reads that as well.
                return Known(machine, key, recorded)
            carry = machine.carry_of(key) if known is Outcome.CARRIED else None
            if carry is None or not machine.has_left(key):
                return None
            partition, key = carry.target, RowKey(carry.position_ms, key.digest, carry.version)
        return None

    async def ended_as(self, partition: Partition, key: RowKey) -> State:
        """What the task of a delivery is that no row waits for any more; PENDING: it lives on, by another delivery."""
        task = await self._finder.task_of(partition, key)
        here = await drive(locate(task, durable=True), self._scheduler.procedures) if task is not None else None
        if here is None or here.rows is None:
            return State.FINISHED
        if here.ending.outcome not in ENDED or generation_of(here.place.key.version) != generation_of(key.version):
            return marked_as(here) or State.PENDING
        said = await self._told(here)
        if said.asked is Asked.WAITING:
            return State.PENDING
        return ENDED[said.outcome if said.outcome in ENDED else here.ending.outcome]

    async def until_left(self, partition: Partition, key: RowKey) -> None:
        """Of a row that goes on elsewhere: until that is durable, not all of its way is known."""
        machine = self._scheduler.machines.get(partition)
        if machine is not None and not machine.has_left(key):
            with suppress(NoLongerHeld):
                await self.durable(machine, machine.last_lsn)

    async def again(self, item: Again) -> bool:
        """What cannot be reached in time is left to the end of the lease, when the task is delivered again anyway. A
        worker that was silent may have come back with it meanwhile, and been told that it has it still: False."""
        while (waiting := await self._waiting(item.partition, item.key)) is not None:
            machine, key, rows = waiting
            position_ms = await drive(free_position(machine.partition, item), self._scheduler.procedures)
            if self._scheduler.deliveries.came_since(item.key, item.failed_at_ms):
                return False
            if machine.may_leave(key):
                lsn = machine.again_waiting(key, rows, item._replace(position_ms=position_ms))
                await self.durable(machine, lsn)
                break
        return True

    async def end(self, item: Ended) -> bool:
        """Whether its row waited somewhere and has ended now, or had by the record of this very end. As long as it
        waits, it is tried again."""
        waiting = await self._waiting(item.partition, item.key, patient=True)
        if waiting is None:
            return item.outcome is Outcome.DEAD and await self._has_died(item)
        machine, key, _ = waiting
        await self.durable(machine, machine.end_waiting([key], item.outcome))
        return True

    async def expire(self, item: Again) -> bool:
        """As `end`, of an attempt that failed too late for another one."""
        waiting = await self._waiting(item.partition, item.key, patient=True)
        if waiting is None:
            return False
        machine, key, _ = waiting
        await self.durable(machine, machine.expire_waiting(key, item))
        return True

    async def _has_died(self, item: Ended) -> bool:
        """Its record was written, and the lease was over before that was known. Who holds the row now may have read the
        records before: then it is told, or has sent it again."""
        task = await self._finder.task_of(item.partition, item.key)
        here = await drive(locate(task, durable=True), self._scheduler.procedures) if task is not None else None
        if here is None or here.ending.outcome is not Outcome.DEAD or here.place.key != item.key:
            return False
        said = await self._told(here)
        return said.asked is Asked.ENDED and said.outcome is Outcome.DEAD

    async def _told(self, here: Located) -> HolderAnswer:
        """The holder of what is found to have ended. It may have sent once more what its record says to be dead, and
        the ack of that worker counts."""
        said = await drive(tell_end(here), self._scheduler.procedures)
        if said.asked is Asked.SILENT:
            raise silent()
        if said.asked is Asked.OPEN and here.ending.outcome is Outcome.DEAD:
            raise Unavailable(SENT_ONCE_MORE, "IN_FLIGHT", retry_after_ms=SAY_AGAIN_MS)
        return said

    async def _waiting(self, partition: Partition, key: RowKey, *, patient: bool = False) -> Waiting | None:
        """A place that nobody holds yet is held a little earlier than it would be."""
        for _ in count() if patient else range(LOOKS):
            here = await self._finder.look(partition, key)
            if here is None or here.rows is None:
                return None
            machine = self._scheduler.machines.get(here.place.partition)
            if machine is None:
                self._scheduler.hold(here.place.partition)
            elif machine.is_copy_of_ended(here.place.key, int(here.rows.columns["flags"][0])):
                return None
            elif here.written and machine.may_leave(here.place.key):
                return machine, here.place.key, here.rows
            await asyncio.sleep(LOOK_S)
        return None

    def durable(self, machine: PartitionMachine, lsn: int) -> asyncio.Future[None]:
        durable = self._scheduler.held.durable(machine, lsn)
        self._scheduler.held.settle_soon(machine)
        return durable


def marked_as(here: Located) -> State | None:
    """What a task is whose row has a mark and no record yet."""
    states = (marked(mark) for mark in here.marks if mark.key == here.place.key)
    return next((state for state in states if state is not None), None)


def silent() -> Unavailable:
    return Unavailable(
        "The instance that holds the task's partition does not answer: say it again in a moment.",
        "HOLDER_SILENT",
        retry_after_ms=SAY_AGAIN_MS,
    )
