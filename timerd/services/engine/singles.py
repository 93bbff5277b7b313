"""Calls of one task each that came in one turn of the loop: their rows go to the store by one trip.

Each call keeps the procedure that it would run alone, so the rules of insertion hold as they are (protocol section 4).
Shared are the first append, what is counted, and the tasks of the event loop: a call by itself costs more of these than
of its rows. What does not end right after the append goes on by itself, and holds up no other call.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from timerd.core.protocol import (
    AppendRows,
    Call,
    ClosedForGood,
    Forgotten,
    HintRows,
    Inserted,
    NotTakenIn,
    Procedure,
    Request,
    insert,
    place_message,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.first_reply import first_reply_of_one
from timerd.model.identity import TaskId, mac_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup, concat
from timerd.model.storage import Append, Appended
from timerd.services.engine.placed_ids import PlacedIds, homes_after, places_after
from timerd.services.engine.stored_once import CLOCKS_DIFFER_MS
from timerd.services.engine.verbs import NewTasks, OnAnswer, StoredTasks
from timerd.services.holding.driving import Performs, after_a_write, drive_on
from timerd.services.holding.shards import Shards

# A procedure after a step of it: its result, what it raised, or what it asks for next.
Reached = Inserted | Exception | Request


class Single(NamedTuple):
    """A call with one task, which is stored where it is due."""

    number: int
    tasks: NewTasks
    fire_at_ms: int
    partition: Partition
    message: Append
    procedure: Procedure[Inserted]


class WrittenSingle(NamedTuple):
    """A call with one task whose row was written, and what the store said."""

    number: int
    tasks: NewTasks
    place: Partition
    appended: Appended


class Singles:
    """`store_one` stores the tasks of one call by itself; `call` names it to its other tries, where the store does not
    know these; `counted` hears of rows that were stored."""

    def __init__(
        self,
        secret: bytes,
        runner: Performs,
        shards: Shards,
        store_one: Callable[[NewTasks, int], Awaitable[StoredTasks]],
        call: Callable[[NewTasks, int], Call],
        counted: Callable[[RowGroup], None],
        *,
        knows_repeats: bool,
    ) -> None:
        self._secret = secret
        self._runner = runner
        self._shards = shards
        self._store_one = store_one
        self._call = call
        self._counted = counted
        self._knows_repeats = knows_repeats

    async def store(self, calls: Sequence[NewTasks], now_ms: int, told: OnAnswer) -> None:
        """Each call is told of as soon as its own outcome is known. `calls`: of one task each, without keys."""
        singles: list[Single] = []
        work: list[Awaitable[None]] = []
        for number, tasks in enumerate(calls):
            single = self._single(number, tasks, now_ms)
            if single is None:
                work.append(_telling(self._store_one(tasks, now_ms), number, told))
            else:
                singles.append(single)
        work += [self._trip(part, now_ms, told) for part in self._parts(singles)]
        await all_of(work)

    async def store_apart(self, calls: Iterable[tuple[int, NewTasks]], now_ms: int, told: OnAnswer) -> None:
        """As `store`, of calls with their numbers, each as if nobody had come beside it."""
        await all_of([_telling(self._store_one(tasks, now_ms), number, told) for number, tasks in calls])

    async def go_on(self, written: Iterable[WrittenSingle], now_ms: int, told: OnAnswer) -> None:
        """Calls whose rows were written by somebody who knows no more to do."""
        singles = [(self._at(*each[:3], now_ms), each.appended) for each in written]
        if singles:
            part, appended = zip(*singles, strict=True)
            await self._go_on(part, appended, now_ms, told)

    def _single(self, number: int, tasks: NewTasks, now_ms: int) -> Single | None:
        """None: something about it is to be looked up first, or it comes too late for its place."""
        fire_at_ms = int(tasks.rows.columns["fire_at_ms"][0])
        if fire_at_ms < max(now_ms, tasks.request_time_ms - CLOCKS_DIFFER_MS):
            return None
        bucket_ms = bucket_of(fire_at_ms)
        shard = self._shards.known(tasks.prefix, bucket_ms)
        if shard is None or (tasks.delayed and not self._knows_repeats):
            return None
        return self._at(number, tasks, Partition(TIME_SCOPE, bucket_ms, shard), now_ms)

    def _at(self, number: int, tasks: NewTasks, place: Partition, now_ms: int) -> Single:
        """Its procedure waits for what its append says."""
        rows, prefix, fire_at_ms = tasks.rows, tasks.prefix, int(tasks.rows.columns["fire_at_ms"][0])
        if not self._knows_repeats:
            message = Append(((place, rows),))
            procedure = place_message(message, self._call(tasks, now_ms))
        else:
            message = Append(((place, rows),), prefix, first_reply_of_one(fire_at_ms))
            procedure = insert(message, now_ms)
        # The first thing that either asks for is its append.
        assert isinstance(next(procedure), AppendRows)
        return Single(number, tasks, fire_at_ms, place, message, procedure)

    def _parts(self, singles: Sequence[Single]) -> Iterable[Sequence[Single]]:
        """What shares an append shares its failure. A store of one writer commits all of it or nothing in any case; on
        others only the rows of a partition share theirs."""
        if self._knows_repeats:
            return [singles] if singles else []
        parts: defaultdict[Partition, list[Single]] = defaultdict(list)
        for single in singles:
            parts[single.partition].append(single)
        return parts.values()

    async def _trip(self, part: Sequence[Single], now_ms: int, told: OnAnswer) -> None:
        try:
            appended = await self._append(part)
        except (StoreUnavailable, StoreUnknown) as error:
            for single in part:
                told(single.number, error)
        except Exception as error:  # noqa: BLE001 - told to whose it is
            if len(part) == 1:
                told(part[0].number, error)
                return
            # One of them is at fault, and the others need not suffer for it.
            for single in part:
                await self._trip([single], now_ms, told)
        else:
            await self._go_on(part, appended, now_ms, told)

    async def _append(self, part: Sequence[Single]) -> Sequence[Appended]:
        """One answer a call."""
        if self._knows_repeats:
            return await self._ask([single.message for single in part])
        rows = concat([single.tasks.rows for single in part])
        return (await self._ask([Append(((part[0].partition, rows),))])) * len(part)

    async def _ask(self, messages: Sequence[Append]) -> list[Appended]:
        appended = await self._runner.perform(AppendRows(messages))
        assert isinstance(appended, list)
        return appended

    async def _go_on(self, part: Sequence[Single], appended: Sequence[Appended], now_ms: int, told: OnAnswer) -> None:
        stored: list[Single] = []
        left: list[tuple[Single, Reached]] = []
        for single, answer in zip(part, appended, strict=True):
            reached = _step(single.procedure, [answer])
            if isinstance(reached, HintRows):
                reached = await self._hinted(single, reached)
            if isinstance(reached, Inserted) and reached.repeated is None and not reached.moved:
                stored.append(single)
            else:
                left.append((single, reached))
        if stored:
            self._counted(concat([single.tasks.rows for single in stored]))
        for single in stored:
            told(single.number, StoredTasks([self._id_of(single)], {}, {}))
        await all_of([_telling(self._ended(single, reached, now_ms), single.number, told) for single, reached in left])

    async def _hinted(self, single: Single, hint: HintRows) -> Reached:
        """A hint waits for nobody."""
        try:
            await self._runner.perform(hint)
        except Exception as error:  # noqa: BLE001 - of this call
            return error
        return _step(single.procedure, None)

    def _id_of(self, single: Single) -> TaskId:
        tasks, place, template = single.tasks, single.partition, single.tasks.rows.templates[0]
        of_queue = template.scope, template.priority
        mac = mac_of(self._secret, tasks.namespace, tasks.prefix, place, *of_queue)
        item = int(tasks.rows.columns["index"][0])
        return TaskId(single.fire_at_ms, place.shard, *of_queue, tasks.prefix, item, mac)

    async def _ended(self, single: Single, reached: Reached, now_ms: int) -> StoredTasks:
        """A call whose rows were written, now or by an earlier try of it, as it ends alone."""
        tasks = single.tasks
        with after_a_write():
            try:
                done = await self._done(single, reached)
            except ClosedForGood as error:
                raise StoreUnknown("A task's instant was closed while it was written.") from error
            except (NotTakenIn, Forgotten):
                return await self._store_one(tasks, now_ms)
            if done.repeated is not None:
                return await self._store_one(tasks, now_ms)
        self._counted(tasks.rows)
        first_ms = np.array([single.fire_at_ms], np.int64)
        placed_ms = places_after(tasks, first_ms, done)
        homes = homes_after(first_ms, placed_ms, {single.partition.bucket_ms: single.partition.shard})
        return StoredTasks(PlacedIds(self._secret, tasks.prefix, tasks.rows, placed_ms, *homes), {}, {})

    async def _done(self, single: Single, reached: Reached) -> Inserted:
        if isinstance(reached, Inserted):
            return reached
        if isinstance(reached, Exception):
            raise reached
        return await drive_on(single.procedure, reached, self._runner, has_written=True)


def _step(procedure: Procedure[Inserted], answer: object) -> Reached:
    try:
        return procedure.send(answer)
    except StopIteration as over:
        done: Inserted = over.value
        return done
    except Exception as error:  # noqa: BLE001 - of this call
        return error


async def _telling(work: Awaitable[StoredTasks], number: int, told: OnAnswer) -> None:
    try:
        stored = await work
    except Exception as error:  # noqa: BLE001 - told to whose it is
        told(number, error)
    else:
        told(number, stored)


async def all_of(work: Sequence[Awaitable[None]]) -> None:
    """One alone without a task of its own, whose start and end are turns of the loop."""
    if len(work) == 1:
        await work[0]
    elif work:
        await asyncio.gather(*work)
