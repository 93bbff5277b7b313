"""While a page is taken in the next one is read; whoever asks for something else is given that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.partition_rig import HERE, QUEUE, START_MS, acquired, key, page, rows
from timerd.core.partition.effects import ReadPage
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.errors import StoreUnavailable
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Page
from timerd.ports import Rows
from timerd.services.holding.paging import AGAIN_TIMES, PAGE_BYTES
from timerd.services.holding.read_ahead import INLINE_ROWS, ReadAhead

LAST = 3
FIRST = ReadPage(HERE, START_MS, HERE.end_ms, 0)


class Shelf:
    """`LAST` pages: the cursor of each is the number of those before it. `asked`: those that were read."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.limits: list[int] = []
        self.fails: set[int] = set()
        self.on_page: list[RowGroup] | None = None

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        self.asked.append(cursor)
        self.limits.append(limit_bytes)
        await asyncio.sleep(0)
        if cursor in self.fails:
            self.fails.remove(cursor)
            raise StoreUnavailable("out of order", "STORE_UNAVAILABLE")
        found = () if keys_only else self.on_page or (rows(key(cursor)),)
        return page(*found, cursor=cursor + 1, done=cursor + 1 == LAST)


class Library:
    """The reader of one machine, and what it has begun."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.machine: PartitionMachine = acquired()[0]
        self._tasks: list[asyncio.Task[None]] = []
        self._pages = ReadAhead(cast("Rows", self.shelf), self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def page(self, read: ReadPage) -> Page:
        return await self._pages.page(self.machine, read)

    async def rest(self) -> None:
        """What was begun is done."""
        await asyncio.gather(*self._tasks)


def after(read: ReadPage, found: Page) -> ReadPage:
    return replace(read, cursor=found.cursor)


async def test_the_next_page_is_read_before_it_is_asked_for() -> None:
    library = Library()
    await library.page(FIRST)
    await library.rest()
    assert library.shelf.asked == [0, 1]


async def test_each_page_is_read_once_and_nothing_after_the_last() -> None:
    library, read = Library(), FIRST
    found = [await library.page(read)]
    while not found[-1].done:
        read = after(read, found[-1])
        found.append(await library.page(read))
    await library.rest()
    assert [group.keys()[0] for each in found for group in each.groups] == [key(n) for n in range(LAST)]
    assert library.shelf.asked == [0, 1, 2]


async def test_another_stretch_is_read_for_itself() -> None:
    """The sweep began anew: what was read for the one before covers less."""
    library = Library()
    await library.page(FIRST)
    other = replace(FIRST, lo_ms=START_MS + 1)
    await library.page(other)
    await library.rest()
    assert sorted(library.shelf.asked) == [0, 0, 1, 1]


async def test_what_could_not_be_read_ahead_is_read_when_it_is_asked_for() -> None:
    library = Library()
    library.shelf.fails = {1}
    found = await library.page(FIRST)
    await library.rest()
    assert (await library.page(after(FIRST, found))).cursor == 2
    assert library.shelf.asked[:3] == [0, 1, 1]


async def test_who_asks_hears_what_is_wrong() -> None:
    library = Library()
    library.shelf.fails = {0}
    with pytest.raises(StoreUnavailable):
        await library.page(FIRST)


async def test_pages_of_keys_and_those_of_a_machine_that_is_over_are_not_read_ahead() -> None:
    library = Library()
    await library.page(replace(FIRST, keys_first=True))
    library.machine.lose()
    await library.page(FIRST)
    await library.rest()
    assert 1 not in library.shelf.asked


async def test_pages_of_a_queue_that_is_brought_in_again_are_larger() -> None:
    library = Library()
    await library.page(FIRST)
    await library.rest()
    library.machine._table._rows.left.leave(QUEUE, (START_MS, 0))
    library.machine._table._rows.begin_reload(QUEUE)
    await library.page(replace(FIRST, lo_ms=START_MS + 1))
    await library.rest()
    assert library.shelf.limits == [PAGE_BYTES] * 2 + [AGAIN_TIMES * PAGE_BYTES] * 2


async def test_a_large_page_of_a_queue_that_is_brought_in_again_comes_in_order_as_one_run() -> None:
    library = Library()
    keys = [key(n, n) for n in range(INLINE_ROWS)]
    library.shelf.on_page = [rows(*keys[1::2], source=1), rows(*keys[::2], source=2)]
    library.machine._table._rows.met.cursor = 2
    assert len((await library.page(FIRST)).groups) == 2
    await library.rest()
    library.machine._table._rows.left.leave(QUEUE, (START_MS + 1, 0))
    library.machine._table._rows.begin_reload(QUEUE)
    # It begins where the page read ahead would: that one was read for a sweep, and is left.
    (run,) = (await library.page(replace(FIRST, cursor=1))).groups
    assert run.keys() == keys[1:]
    library.machine._table._rows.end_reload()
    assert len((await library.page(replace(FIRST, cursor=2))).groups) == 2
    await library.rest()
