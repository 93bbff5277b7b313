"""Calls of one task each that came in one turn of the loop, as columns: checked, written, hinted, counted and named in
one pass over all of them.

They stay columns where all that is left to do after the append is a hint (core/protocol/insertion.py,
`is_simply_open`), as for nearly all. What else is to be done is `Singles`' to do, which has a procedure for each call:
of a repeat, of a partition that is being worked on, of a store that fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from timerd.core.protocol import AppendRows, Call, HintRows, is_simply_open
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import RowGroup
from timerd.model.single_messages import SingleMessages, rows_of_each
from timerd.model.storage import Append, Appended
from timerd.services.engine.new_singles import HearsSingles, NewSingles
from timerd.services.engine.single_ids import id_texts
from timerd.services.engine.singles import Singles, WrittenSingle, all_of
from timerd.services.engine.stored_once import CLOCKS_DIFFER_MS
from timerd.services.engine.verbs import NewTasks, OnAnswer, StoredTasks
from timerd.services.holding.driving import Performs
from timerd.services.holding.shards import Shards


class _Part(NamedTuple):
    """Calls that share an append (n,), by their numbers, and where their rows go."""

    numbers: Sequence[int]
    tasks: NewSingles
    places: Sequence[Partition]

    def select(self, which: Sequence[int]) -> _Part:
        if len(which) == len(self.numbers):
            return self
        numbers, places = [self.numbers[n] for n in which], [self.places[n] for n in which]
        return _Part(numbers, self.tasks.select(np.array(which, np.intp)), places)


class _Answered(NamedTuple):
    """Rows of one partition that one answer of the store speaks of."""

    place: Partition
    appended: Appended
    rows: list[int]


class TurnSingles:
    """As for `Singles`, which stores calls that are no columns, or stay none."""

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
        self._each = Singles(secret, runner, shards, store_one, call, counted, knows_repeats=knows_repeats)
        self._counted = counted
        self._knows_repeats = knows_repeats

    async def store(self, calls: Sequence[NewTasks], now_ms: int, told: OnAnswer) -> None:
        """Each call is told of as soon as its own outcome is known. `calls`: of one task each, without keys."""
        await self._each.store(calls, now_ms, told)

    async def store_plain(self, plain: NewSingles, now_ms: int, told: HearsSingles) -> None:
        """As `store`, of calls that came as columns."""
        whole, apart = self._placed(plain, now_ms)
        work: list[Awaitable[None]] = [self._trip(part, now_ms, told) for part in self._parts(whole)]
        if apart:
            ones = {n: plain.one(n) for n in apart}
            work.append(self._each.store_apart(ones.items(), now_ms, _told_of(ones, told)))
        await all_of(work)

    def _placed(self, plain: NewSingles, now_ms: int) -> tuple[_Part, list[int]]:
        """And the numbers of those of which something is to be looked up first, or that come too late for their
        places."""
        fire_at_ms = plain.rows.columns["fire_at_ms"]
        is_apart = fire_at_ms < np.maximum(now_ms, plain.request_times_ms - CLOCKS_DIFFER_MS)
        if not self._knows_repeats:
            is_apart |= plain.is_delayed
        buckets = (fire_at_ms - fire_at_ms % BUCKET_MS).tolist()
        made: dict[tuple[int, int], Partition] = {}
        numbers, places, apart = list[int](), list[Partition](), list[int]()
        for n, (bucket_ms, prefix, goes_apart) in enumerate(
            zip(buckets, plain.prefixes(), is_apart.tolist(), strict=True)
        ):
            shard = None if goes_apart else self._shards.known(prefix, bucket_ms)
            if shard is None:
                apart.append(n)
                continue
            if (at := (bucket_ms, shard)) not in made:
                made[at] = Partition(TIME_SCOPE, bucket_ms, shard)
            numbers.append(n)
            places.append(made[at])
        return _Part(numbers, plain if not apart else plain.select(np.array(numbers, np.intp)), places), apart

    def _parts(self, whole: _Part) -> Sequence[_Part]:
        """What shares an append shares its failure. A store of one writer commits all of it or nothing in any case; on
        others only the rows of a partition share theirs."""
        if self._knows_repeats:
            return [whole] if whole.numbers else []
        return [whole.select(which) for which in rows_of_each(whole.places).values()]

    async def _trip(self, part: _Part, now_ms: int, told: HearsSingles) -> None:
        try:
            appended = await self._append(part)
        except (StoreUnavailable, StoreUnknown) as error:
            told.failed(part.numbers, error)
        except Exception as error:  # noqa: BLE001 - told to whose it is
            if len(part.numbers) == 1:
                told.failed(part.numbers, error)
                return
            # One of them is at fault, and the others need not suffer for it.
            for n in range(len(part.numbers)):
                await self._trip(part.select([n]), now_ms, told)
        else:
            await self._go_on(part, appended, now_ms, told)

    async def _append(self, part: _Part) -> Sequence[Appended]:
        """One answer a call."""
        rows, places = part.tasks.rows, part.places
        if self._knows_repeats:
            return await self._ask(SingleMessages(rows, places))
        return (await self._ask([Append(((places[0], rows),))])) * len(places)

    async def _ask(self, messages: Sequence[Append]) -> list[Appended]:
        appended = await self._runner.perform(AppendRows(messages))
        assert isinstance(appended, list)
        return appended

    async def _go_on(self, part: _Part, appended: Sequence[Appended], now_ms: int, told: HearsSingles) -> None:
        said = _by_answer(part.places, appended)
        is_open = [is_simply_open(each.place, each.appended) for each in said]
        left = [each for each, ended in zip(said, is_open, strict=True) if not ended]
        done = [each for each, ended in zip(said, is_open, strict=True) if ended]
        if done:
            await self._end(part, done, told)
        written = [
            WrittenSingle(part.numbers[n], part.tasks.one(n), each.place, each.appended)
            for each in left
            for n in each.rows
        ]
        await self._each.go_on(written, now_ms, _told_of({each.number: each.tasks for each in written}, told))

    async def _end(self, part: _Part, done: Sequence[_Answered], told: HearsSingles) -> None:
        """The rows are durable, and will be read where they are."""
        rows = part.tasks.rows
        hints = [(each.place, _some(rows, each.rows), each.appended.sources.get(each.place, 0)) for each in done]
        controls = {each.place: each.appended.controls.get(each.place) for each in done}
        ended = part.select([n for each in done for n in each.rows])
        try:
            await self._runner.perform(HintRows(hints, controls, may_repeat=not self._knows_repeats))
        except Exception as error:  # noqa: BLE001 - told to whose they are
            told.failed(ended.numbers, error)
            return
        self._counted(ended.tasks.rows)
        told.stored(ended.numbers, id_texts(self._secret, ended.tasks, ended.places))


def _told_of(ones: Mapping[int, NewTasks], told: HearsSingles) -> OnAnswer:
    return lambda number, stored: told.ended(number, ones[number], stored)


def _by_answer(places: Sequence[Partition], appended: Sequence[Appended]) -> list[_Answered]:
    """An answer that says the same of many rows is one object."""
    found: dict[tuple[int, Partition], _Answered] = {}
    for n, (place, answer) in enumerate(zip(places, appended, strict=True)):
        at = id(answer), place
        if at not in found:
            found[at] = _Answered(place, answer, [])
        found[at].rows.append(n)
    return list(found.values())


def _some(rows: RowGroup, which: Sequence[int]) -> RowGroup:
    return rows if len(which) == len(rows) else rows.select(np.array(which, np.intp))
