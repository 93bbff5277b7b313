"""Keys that a dead letter halts: noted at the store before it, found again after a restart, and resumed (rules F1 to F3
and F5 of tests/models/failure.pml)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from timerd.core.ordering import OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.halts import HALTED, Halt, halt_of, task_of
from timerd.model.identity import TaskId, generation_of
from timerd.model.ordering import OnFailure, OrderPlace
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.background import begin
from timerd.services.holding.halted_tasks import HaltedTask

PAGE = 1_000
AGAIN_S = 0.25
# Of the tasks that are looked for, so many in one go.
LOOKED_FOR = 100
# Whichever ends is a later one.
NO_GENERATION = -1
_LOG = logging.getLogger("timerd.ordering")


FindsTask = Callable[[TaskId], Awaitable[HaltedTask]]


class Halting:
    """Of one instance. `finds`: what has become of a task."""

    def __init__(self, keys: OrderKeys, store: Store, finds: FindsTask) -> None:
        self._keys = keys
        self._store = store
        self._finds = finds
        self._noting: dict[bytes, asyncio.Task[None]] = {}
        # Of these it is not known whether their tasks are dead.
        self._unsure: dict[bytes, None] = {}
        self._reviving: Counter[bytes] = Counter()
        self._tended = 0
        keys.halts.is_read = False

    async def begin(self, *, is_single: bool) -> None:
        """Beside other instances nothing has an ordering key."""
        if is_single:
            await self.read()
        self._keys.halts.is_read = True

    async def read(self) -> None:
        """What halted keys before this instance began. Of a note without its dead letter the task lives, or has ended
        since: it keeps the others waiting until that is known."""
        after = b""
        while entries := await self._store.list_entries(HALTED, after, PAGE):
            after = entries[-1].key.name
            dead_letters = await self._store.get_dead_letters([task_of(entry) for entry in entries])
            dead = {letter.task_id: Halt.of(letter) for letter in dead_letters}
            for halt in map(halt_of, entries):
                self._keys.halt(dead.get(halt.task_id, halt))
                if halt.task_id not in dead:
                    self._keys.halts.revive(halt, NO_GENERATION)
                self._unsure[halt.task_id] = None
        self._keys.halts.is_read = True

    def of(self, dead_letters: Sequence[DeadLetter]) -> list[Halt]:
        """Which of them halt their keys, and are not noted yet."""
        halts = [Halt.of(letter) for letter in dead_letters if letter.ordering_key]
        halts = [halt for halt in halts if self._policy(halt) is OnFailure.HALT]
        return [halt for halt in halts if not self._is_noted(halt)]

    def _is_noted(self, halt: Halt) -> bool:
        """What lived again in its place has its note still."""
        known = self._keys.halts.of_task(halt.task_id)
        if known is not None and self._keys.halts.lives(known):
            self._keys.halt(halt)
        return known is not None

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

    # -- redriven -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def reviving(self, letter: DeadLetter) -> AsyncIterator[OrderPlace | None]:
        """The task is given life meanwhile. It has the place that it had, where it halts its key: nothing has started
        since, so it is the next one (rule F5). None: by its new time, and its key goes on."""
        halt = self._keys.halts.of_task(letter.task_id)
        keeps = halt is not None and letter.order_place is not None and self._keys.halts.is_only_one(halt)
        if halt is not None and keeps:
            self._keys.halts.revive(halt, generation_of(letter.key.version))
        self._reviving[letter.task_id] += 1
        try:
            yield OrderPlace(*letter.order_place) if keeps and letter.order_place is not None else None
        except BaseException:
            self._unsure[letter.task_id] = None
            raise
        finally:
            self._reviving[letter.task_id] -= 1
            self._reviving += Counter()
        if halt is not None and not keeps:
            await self.resume(halt)

    async def tend(self) -> None:
        """Removes notes that are over, and looks for tasks of which nothing is in memory."""
        halts = self._keys.halts
        while lifted := halts.lifted[:PAGE]:
            await self._store.remove_entries([halt.name for halt in lifted])
            del halts.lifted[: len(lifted)]
        absent = [halt.task_id for halt in halts.revived() if not self._keys.knows(halt)]
        asked = [each for each in dict.fromkeys([*self._unsure, *absent]) if each not in self._reviving]
        # Others first the next time.
        at = self._tended % len(asked) if asked else 0
        self._tended = at + LOOKED_FOR
        for task_id in (asked[at:] + asked[:at])[:LOOKED_FOR]:
            await self._look_for(task_id)

    async def is_sure(self, halt: Halt) -> None:
        """Before it is resumed by name."""
        if halt.task_id in self._unsure and halt.task_id not in self._reviving:
            await self._look_for(halt.task_id)

    async def _look_for(self, task_id: bytes) -> None:
        halt = self._keys.halts.of_task(task_id)
        found = await self._finds(TaskId.from_bytes(task_id)) if halt is not None else None
        self._unsure.pop(task_id, None)
        if halt is None or halt is not self._keys.halts.of_task(task_id):
            return
        if found is HaltedTask.GONE:
            await self.resume(halt)
        elif found is HaltedTask.DEAD:
            self._keys.halt(halt)
        elif not self._keys.halts.lives(halt):
            self._keys.halts.revive(halt, NO_GENERATION)

    def _policy(self, halt: Halt) -> OnFailure:
        return self._keys.on_failure(QueueKey(halt.namespace, halt.queue))
