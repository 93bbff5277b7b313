"""Keys that a dead letter halts: noted at the store before it, found again after a restart, and resumed (rules F1 to F3
of tests/models/failure.pml)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from timerd.core.ordering import OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.halts import HALTED, Halt, task_of
from timerd.model.ordering import OnFailure
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.background import begin

PAGE = 1_000
AGAIN_S = 0.25
_LOG = logging.getLogger("timerd.ordering")


class Halting:
    """Of one instance."""

    def __init__(self, keys: OrderKeys, store: Store) -> None:
        self._keys = keys
        self._store = store
        self._noting: dict[bytes, asyncio.Task[None]] = {}
        keys.halts.is_read = False

    async def begin(self, *, is_single: bool) -> None:
        """Beside other instances nothing has an ordering key."""
        if is_single:
            await self.read()
        self._keys.halts.is_read = True

    async def read(self) -> None:
        """What halted keys before this instance began. A note without its dead letter halts nothing: its task lives, or
        has been redriven."""
        after = b""
        while entries := await self._store.list_entries(HALTED, after, PAGE):
            after = entries[-1].key.name
            dead = await self._store.get_dead_letters([task_of(entry) for entry in entries])
            for letter in dead:
                self._keys.halt(Halt.of(letter))
            known = {letter.task_id for letter in dead}
            if over := [entry.key for entry in entries if task_of(entry) not in known]:
                await self._store.remove_entries(over)
        self._keys.halts.is_read = True

    def of(self, dead_letters: Sequence[DeadLetter]) -> list[Halt]:
        """Which of them halt their keys, and are not noted yet."""
        halts = [Halt.of(letter) for letter in dead_letters if letter.ordering_key]
        known = self._keys.halts.of_task
        return [halt for halt in halts if self._policy(halt) is OnFailure.HALT and known(halt.task_id) is None]

    def may_end(self, letter: DeadLetter) -> bool:
        """Whether this end may be recorded; if not, it is noted meanwhile."""
        if letter.task_id in self._noting:
            return False
        if halts := self.of([letter]):
            self._noting[letter.task_id] = begin(self._noted(halts), "ordering")
            return False
        return True

    async def _noted(self, halts: Sequence[Halt]) -> None:
        try:
            await self.note(halts)
        finally:
            for halt in halts:
                self._noting.pop(halt.task_id, None)

    async def note(self, halts: Sequence[Halt]) -> None:
        """Until it is done: the deliveries are over for their workers."""
        while True:
            try:
                await self._store.write_entries([halt.to_entry() for halt in halts])
                break
            except (StoreUnavailable, StoreUnknown) as error:
                _LOG.warning("%d ordering keys are to stand still: %s; trying again", len(halts), error)
                await asyncio.sleep(AGAIN_S)
        for halt in halts:
            self._keys.halt(halt)
            _LOG.warning(
                "the ordering key %r of %s/%s stands still since a task has failed for good (timerd keys)",
                halt.ordering_key, halt.namespace, halt.queue,
            )  # fmt: skip

    def is_by(self, task_id: bytes) -> bool:
        """Whether a key stands still because of this dead letter."""
        return self._keys.halts.of_task(task_id) is not None

    async def lives(self, task_ids: Sequence[bytes]) -> None:
        """These are dead no more: their keys go on."""
        for task_id in task_ids:
            if (halt := self._keys.halts.of_task(task_id)) is not None:
                await self.resume(halt)

    async def resume(self, halt: Halt) -> None:
        """The note goes, THEN the key goes on."""
        await self._store.remove_entries([halt.name])
        self._keys.resume(halt)

    def _policy(self, halt: Halt) -> OnFailure:
        return self._keys.on_failure(QueueKey(halt.namespace, halt.queue))
