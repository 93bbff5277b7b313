"""How rows ended, from the settle records. One read serves all who asked while another one ran, and what was read once
is kept for a while: records never change.

A request is answered from a read that began after it came, as each by itself would be. After a crash thousands of
late acks and repeats ask about one partition, which has a record for each commit: at 2,000 tasks a second 600,000
endings. Read whole each time, they would stop the loop for longer than the leases of what it delivers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from timerd.core.partition import SettledIndex
from timerd.core.protocol import Ending
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.settle import Carry, Outcome, SettleRecord, last_attempt_of, unsent_note
from timerd.ports import Store
from timerd.services.background import begin

# More endings than this are indexed in a thread: a few milliseconds of the loop.
INLINE_ENDINGS = 10_000
# Of all partitions that are kept, some 40 bytes each: those of a busy bucket and of the one before it, be it many
# shards with a few or one with many. The two asked about last are kept whatever they have.
KEPT_ENDINGS = 1_000_000
KEPT = 2


class Endings:
    """What the records of one partition say."""

    def __init__(self) -> None:
        self.names: set[tuple[int, int]] = set()
        self.count = 0
        self._index = SettledIndex()
        self._carries: dict[RowKey, Carry] = {}

    def add(self, records: Sequence[SettleRecord]) -> bool:
        """Of several records of one row the latest counts (rule K4). False: one is among them of a row that is known
        already, and all have to be read anew."""
        by_token: dict[int, list[SettleRecord]] = defaultdict(list)
        for record in sorted(records, key=SettleRecord.order, reverse=True):
            by_token[record.token].append(record)
        is_first = not self.names
        for said in by_token.values():
            if not self._load(said) and not is_first:
                return False
        self.names.update((record.token, record.sequence) for record in records)
        return True

    def _load(self, said: Sequence[SettleRecord]) -> bool:
        """Of one holder, which ends a row once. Whether none was known."""
        entries = np.concatenate([record.entries for record in said])
        new = self._index.without_known(entries)
        self._index.load(new)
        self.count += len(new)
        for record in said:
            for carry in record.carries:
                self._carries.setdefault(carry.source, carry)
        return len(new) == len(entries)

    def known(self, rows: RowGroup) -> npt.NDArray[np.bool_]:
        return self._index.known(rows)

    def of(self, key: RowKey) -> Ending:
        outcome = self._index.get(key)
        return Ending(outcome, self._carries.get(key) if outcome is Outcome.CARRIED else None)

    def last_attempt(self, key: RowKey) -> Carry | None:
        """How the attempt failed with which the row ended; None: it ended by itself, or in another way."""
        return self._carries.get(last_attempt_of(key)) if self._carries else None

    def says_unsent(self, partition: Partition, key: RowKey) -> bool:
        """Whether the row had not been sent when it was acked."""
        return self._index.get(unsent_note(partition, key)) is Outcome.ACKED


class SettledReads:
    def __init__(self, store: Store) -> None:
        self._store = store
        # Partitions that are being read -> who has asked since that began.
        self._waiting: dict[Partition, list[asyncio.Future[Endings]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Asked about last, last; each with as many endings as are counted of it.
        self._kept: dict[Partition, tuple[Endings, int]] = {}
        self._kept_count = 0

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
        """Of one partition one at a time."""
        known, _ = self._kept.get(partition) or (Endings(), 0)
        records = await self._store.settled(partition, known.names)
        if not known.names and sum(len(record.entries) for record in records) > INLINE_ENDINGS:
            await asyncio.to_thread(known.add, records)
        elif not known.add(records):
            known = Endings()
            known.add(await self._store.settled(partition))
        self._keep(partition, known)
        return known

    def _keep(self, partition: Partition, endings: Endings) -> None:
        self._drop(partition)
        if not endings.names:
            # To read it again costs as much as to know it, and who lists a year asks about a hundred thousand.
            return
        self._kept[partition] = endings, endings.count
        self._kept_count += endings.count
        while len(self._kept) > KEPT and self._kept_count > KEPT_ENDINGS:
            self._drop(next(iter(self._kept)))

    def _drop(self, partition: Partition) -> None:
        _, count = self._kept.pop(partition, (None, 0))
        self._kept_count -= count

    def forget(self) -> None:
        """Once a minute or so: who asks again reads again."""
        self._kept.clear()
        self._kept_count = 0

    def _pass_on(self, partition: Partition) -> None:
        """The next read begins: for all who asked during this one."""
        waiting = self._waiting.pop(partition)
        if waiting:
            self._waiting[partition] = []
            task = begin(self._serve(partition, waiting), "settled_reads")
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
