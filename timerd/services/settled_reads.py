"""How rows ended, from the settle records: read whole, so one read serves all who asked while another one ran.

Whoever asks is answered from a read that began after he asked, as each by itself would be. After a crash hundreds of
late acks ask at once about one partition of thousands of records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from timerd.core.procedures import Ending
from timerd.core.settled_index import SettledIndex
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import SettleRecord
from timerd.ports import Store


class Endings:
    """What the records of one partition say."""

    def __init__(self, records: Sequence[SettleRecord]) -> None:
        self._index = SettledIndex()
        if records:
            self._index.load(np.concatenate([record.entries for record in records]))
        self._carries = {carry.source: carry for record in reversed(records) for carry in record.carries}

    def of(self, key: RowKey) -> Ending:
        return Ending(self._index.get(key), self._carries.get(key))


class SettledReads:
    def __init__(self, store: Store) -> None:
        self._store = store
        # Partitions that are being read -> who has asked since that began.
        self._waiting: dict[Partition, list[asyncio.Future[Endings]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def endings(self, partition: Partition) -> Endings:
        waiting = self._waiting.get(partition)
        if waiting is not None:
            answer: asyncio.Future[Endings] = asyncio.get_running_loop().create_future()
            waiting.append(answer)
            return await answer
        self._waiting[partition] = []
        try:
            return await self._read(partition)
        finally:
            self._pass_on(partition)

    async def _read(self, partition: Partition) -> Endings:
        return Endings(await self._store.settled(partition))

    def _pass_on(self, partition: Partition) -> None:
        """The next read begins: for all who asked during this one."""
        waiting = self._waiting.pop(partition)
        if waiting:
            self._waiting[partition] = []
            task = asyncio.create_task(self._serve(partition, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, partition: Partition, waiting: Sequence[asyncio.Future[Endings]]) -> None:
        try:
            endings = await self._read(partition)
        except Exception as error:  # noqa: BLE001 - told to those who asked
            for answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for answer in waiting:
                if not answer.done():
                    answer.set_result(endings)
        finally:
            self._pass_on(partition)
