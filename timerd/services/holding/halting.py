"""Keys that a dead letter halts: noted at the store before it, found again after a restart, and resumed (rules F1 to F3
and F5 of tests/models/failure.pml).

In a cluster the notes are read with each look at the catalogue, for another instance may have written one, or removed
it: who keeps a key shard sends by notes that were read since it was taken, and since each of its partitions was.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from timerd.core.ordering import OrderKeys
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.halts import HALTED, Halt, halt_of, names_of
from timerd.model.identity import TaskId, generation_of
from timerd.model.ordering import OnFailure, OrderPlace
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.background import begin
from timerd.services.holding.halted_tasks import HaltedTask

PAGE = 1_000
# Of the notes of one key; it hardly ever has two.
FEW = 10
AGAIN_S = 0.25
# Of the tasks that are looked for, so many in one go.
LOOKED_FOR = 100
# Before all of them.
NO_GENERATION = -1
_LOG = logging.getLogger("timerd.ordering")


# A task, and which of its lives has died.
FindsTask = Callable[[TaskId, int], Awaitable[HaltedTask]]


class Halting:
    """Of one instance. `finds`: what has become of a task. `is_single`: there is no other instance."""

    def __init__(self, keys: OrderKeys, store: Store, finds: FindsTask, *, is_single: bool = True) -> None:
        self._is_single = is_single
        self._keys = keys
        self._store = store
        self._finds = finds
        self._noting: dict[bytes, asyncio.Task[None]] = {}
        # Of these it is not known whether their tasks are dead.
        self._unsure: dict[bytes, None] = {}
        self._reviving: Counter[bytes] = Counter()
        self._tended = 0
        keys.halts.is_read = False

    async def read(self) -> None:
        """What halted keys before this instance began."""
        await self._add([halt async for halt in self._notes()])
        self._keys.halts.is_read = True

    async def look(self) -> None:
        """At what other instances have noted, or removed, as far as a task may be sent from here that goes by it."""
        if not self._is_single and any(True for _ in self._keys.kept_shards):
            await self._compare(b"", list(self._keys.halts.tasks))

    async def look_at(self, queue: QueueKey, ordering_key: str) -> None:
        """As `look`, of one key."""
        if not self._is_single:
            known = self._keys.halts.of_key(queue, ordering_key)
            await self._compare(names_of(*queue, ordering_key), [halt.task_id for halt in known])

    async def _compare(self, names: bytes, before: Sequence[bytes]) -> None:
        """What changes here meanwhile has changed at the store as well."""
        halts = self._keys.halts
        known = {halt.name for each in before if (halt := halts.of_task(each)) is not None}
        removed = {halt.name for halt in halts.lifted}
        noted = {halt.name: halt async for halt in self._notes(names)}
        for each in before:
            if (halt := halts.of_task(each)) is not None and halt.name in known.difference(noted):
                self._keys.resume(halt)
        removed |= {*known, *(halt.name for halt in halts.lifted)}
        await self._add([halt for name, halt in noted.items() if name not in removed])

    async def _notes(self, names: bytes = b"") -> AsyncIterator[Halt]:
        """Those that begin so."""
        after, most = names, FEW if names else PAGE
        while entries := await self._store.list_entries(HALTED, after, most):
            for entry in entries:
                if not entry.key.name.startswith(names):
                    return
                yield halt_of(entry)
            after = entries[-1].key.name

    async def _add(self, noted: Sequence[Halt]) -> None:
        """Of a note without its dead letter the task lives, or has ended since: it keeps the others waiting until that
        is known."""
        for at in range(0, len(noted), PAGE):
            halts = [halt for halt in noted[at : at + PAGE] if not self._knows(halt)]
            dead_letters = await self._store.get_dead_letters([halt.task_id for halt in halts]) if halts else ()
            dead = {halt.name: halt for halt in map(Halt.of, dead_letters)}
            for halt in halts:
                if self._knows(halt):
                    continue
                self._keys.halt(dead.get(halt.name, halt))
                if halt.name not in dead and self._keys.halts.of_task(halt.task_id) is halt:
                    self._revive(halt)
                self._unsure[halt.task_id] = None

    def of(self, dead_letters: Sequence[DeadLetter]) -> list[Halt]:
        """Which of them halt their keys, and are not noted yet."""
        halts = [Halt.of(letter) for letter in dead_letters if letter.ordering_key]
        halts = [halt for halt in halts if self._policy(halt) is OnFailure.HALT]
        return [halt for halt in halts if not self._is_noted(halt)]

    def _is_noted(self, halt: Halt) -> bool:
        """Also what lives, as far as is known: it has its note still."""
        if not self._knows(halt):
            return False
        if self._keys.halts.lives(halt):
            self._keys.halt(halt)
            # Another instance may be about to remove it.
            return self._is_single
        return True

    def _knows(self, halt: Halt) -> bool:
        """That death of its task, or a later one."""
        known = self._keys.halts.of_task(halt.task_id)
        return known is not None and known.generation >= halt.generation

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

    async def among(self, dead_letters: Sequence[DeadLetter]) -> set[bytes]:
        """The ids of those because of which a key stands still. In a cluster by their notes."""
        if self._is_single:
            return {letter.task_id for letter in dead_letters} & self._keys.halts.tasks
        of_keys = [letter for letter in dead_letters if letter.ordering_key]
        notes = await self._store.find_entries([Halt.of(letter).name for letter in of_keys]) if of_keys else ()
        return {letter.task_id for letter, note in zip(of_keys, notes, strict=True) if note is not None}

    async def standing(self) -> list[Halt]:
        """What keeps keys from going on, over all instances."""
        if self._is_single:
            return list(self._keys.halts)
        await self._compare(b"", list(self._keys.halts.tasks))
        noted = list(self._keys.halts.tasks)
        return list(map(Halt.of, await self._store.get_dead_letters(noted) if noted else ()))

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
        if letter.ordering_key:
            await self.look_at(QueueKey(letter.template.namespace, letter.template.queue), letter.ordering_key)
        halt = self._keys.halts.of_task(letter.task_id)
        halt = halt if halt is not None and halt.generation == generation_of(letter.key.version) else None
        keeps = halt is not None and letter.order_place is not None and self._keys.halts.is_only_one(halt)
        place = OrderPlace(*letter.order_place) if keeps and letter.order_place is not None else None
        if halt is not None and keeps:
            self._keys.halts.revive(halt, generation_of(letter.key.version), place)
        self._reviving[letter.task_id] += 1
        try:
            yield place
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
        asked = [each for each in dict.fromkeys([*self._unsure, *absent]) if self._is_to_be_found(each)]
        # Others first the next time.
        at = self._tended % len(asked) if asked else 0
        self._tended = at + LOOKED_FOR
        for task_id in (asked[at:] + asked[:at])[:LOOKED_FOR]:
            await self._look_for(task_id)

    def _is_to_be_found(self, task_id: bytes) -> bool:
        """By who sends the tasks of its key."""
        halt = self._keys.halts.of_task(task_id)
        return task_id not in self._reviving and (
            halt is None or self._keys.is_kept(_queue_of(halt), halt.ordering_key)
        )

    async def find(self, queue: QueueKey, ordering_key: str) -> Halt | None:
        """What halts the key, for certain, before it is resumed by name. None: nothing does."""
        await self.look_at(queue, ordering_key)
        for halt in list(self._keys.halts.of_key(queue, ordering_key)):
            if halt.task_id not in self._reviving and (halt.task_id in self._unsure or not self._is_single):
                await self._look_for(halt.task_id)
        return self._keys.halts.find(queue, ordering_key)

    async def _look_for(self, task_id: bytes) -> None:
        halt = self._keys.halts.of_task(task_id)
        found = await self._finds(TaskId.from_bytes(task_id), halt.generation) if halt is not None else None
        self._unsure.pop(task_id, None)
        if halt is None or halt is not self._keys.halts.of_task(task_id):
            return
        if found is HaltedTask.GONE:
            await self.resume(halt)
        elif found is HaltedTask.DEAD:
            self._keys.halt(halt)
        elif not self._keys.halts.lives(halt):
            self._revive(halt)

    def _revive(self, halt: Halt) -> None:
        """Whichever of its lives ends is a later one."""
        self._keys.halts.revive(halt, NO_GENERATION, self._keys.place_of(halt))

    def _policy(self, halt: Halt) -> OnFailure:
        return self._keys.on_failure(_queue_of(halt))


def _queue_of(halt: Halt) -> QueueKey:
    return QueueKey(halt.namespace, halt.queue)
