"""Inserts: write the rows, *then* read the control row (protocol section 4); both are shared by all who wait.

Each partition that has writers has a lane. What comes while the lane's rounds are under way goes with the next round:
alone, an insert waits for nobody; in a crowd, a hundred share a mutation and one read of the control row.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from timerd.adapters.cassandra.codec import written_rows
from timerd.adapters.cassandra.tasks import TaskTable, batches
from timerd.adapters.cassandra.waiting import one_after_another
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup

# Rounds of one partition under way: while some wait for the control row, others write. They are so small that none of
# those who wait in a crowd waits for all of it.
_MOST_ROUNDS = 4
_ROUND_ROWS = 1_000


class ControlFacts(NamedTuple):
    """Of a partition, read after the rows were readable."""

    control: bytes | None
    is_finishing: bool


class _WaitingInsert(NamedTuple):
    rows: RowGroup
    future: asyncio.Future[ControlFacts]


class _WriteLane:
    def __init__(self) -> None:
        self.waiting: list[_WaitingInsert] = []
        self.rounds = 0
        self.is_called = False

    def take(self) -> list[_WaitingInsert]:
        """Of those who wait, as many as a round should have, at least one."""
        rows = 0
        for at, each in enumerate(self.waiting):
            rows += len(each.rows)
            if rows >= _ROUND_ROWS:
                taken, self.waiting = self.waiting[: at + 1], self.waiting[at + 1 :]
                return taken
        taken, self.waiting = self.waiting, []
        return taken


class Inserts:
    """`facts` reads what must be read after the write."""

    def __init__(
        self, tasks: TaskTable, facts: Callable[[Partition], Awaitable[ControlFacts]], written: WriteNumbers
    ) -> None:
        self._tasks = tasks
        self._facts = facts
        self._written = written
        self._lanes: dict[Partition, _WriteLane] = {}
        self._rounds: set[asyncio.Task[None]] = set()

    async def add(self, partition: Partition, rows: RowGroup) -> ControlFacts:
        future: asyncio.Future[ControlFacts] = asyncio.get_running_loop().create_future()
        lane = self._lanes.setdefault(partition, _WriteLane())
        lane.waiting.append(_WaitingInsert(rows, future))
        self._call(partition, lane)
        return await future

    async def settle(self) -> None:
        """Everything that was added has ended, one way or the other."""
        while self._rounds:
            await asyncio.wait(list(self._rounds))

    def _call(self, partition: Partition, lane: _WriteLane) -> None:
        """After this turn of the event loop, so that all who come in it go together."""
        if lane.rounds < _MOST_ROUNDS and not lane.is_called:
            lane.is_called = True
            asyncio.get_running_loop().call_soon(self._begin, partition, lane)

    def _begin(self, partition: Partition, lane: _WriteLane) -> None:
        lane.is_called = False
        taken = lane.take()
        lane.rounds += 1
        if lane.waiting:
            self._call(partition, lane)
        task = asyncio.get_running_loop().create_task(self._round(partition, taken))
        self._rounds.add(task)
        task.add_done_callback(lambda done: self._ended(done, partition, lane))

    def _ended(self, task: asyncio.Task[None], partition: Partition, lane: _WriteLane) -> None:
        self._rounds.discard(task)
        lane.rounds -= 1
        if lane.waiting:
            self._call(partition, lane)
        elif not lane.rounds and not lane.is_called:
            self._lanes.pop(partition, None)

    async def _round(self, partition: Partition, taken: Sequence[_WaitingInsert]) -> None:
        try:
            rows = (row for each in taken for row in written_rows(partition, each.rows, self._written.next()))
            await one_after_another(self._tasks.write(part) for part in batches(rows))
            facts = await self._after(partition)
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            for each in taken:
                if not each.future.done():
                    each.future.set_exception(error)
            return
        for each in taken:
            if not each.future.done():
                each.future.set_result(facts)

    async def _after(self, partition: Partition) -> ControlFacts:
        """The rows are there: that the read failed does not mean that nothing was stored."""
        try:
            return await self._facts(partition)
        except StoreUnavailable as error:
            raise StoreUnknown(f"Rows were written, but not what must be known of their partition: {error}") from error
