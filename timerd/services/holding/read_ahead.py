"""The next page of a partition is on its way while the last one is taken in: store and loop work at the same time.

A page may be taken in any time after it was read (what was cancelled, moved or written since has been told to the
holder), so it does not matter that one more is read early: it begins after the sweep that it belongs to has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from timerd.core.effects import ReadPage
from timerd.core.partition_machine import PartitionMachine
from timerd.model.errors import CorruptRow, StoreUnavailable, StoreUnknown
from timerd.model.storage import Page
from timerd.ports import Rows
from timerd.services.holding.paging import read_page

Filled = asyncio.Future[Page | None]


class ReadAhead:
    """At most one page for each machine; what is not wanted any more goes with it."""

    def __init__(self, store: Rows, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._store = store
        self._spawn = spawn
        self._ahead: WeakKeyDictionary[PartitionMachine, tuple[ReadPage, Filled]] = WeakKeyDictionary()

    async def page(self, machine: PartitionMachine, read: ReadPage) -> Page:
        """Raises what the store raises."""
        expected, filled = self._ahead.pop(machine, (None, None))
        page = await filled if filled is not None and expected == read else None
        if page is None:
            page = await self._read(machine, read)
        # Of keys it depends on the page before what is lacking.
        if not (page.done or read.keys_first or machine.phase.is_over):
            self._begin(machine, replace(read, cursor=page.cursor))
        return page

    def _begin(self, machine: PartitionMachine, read: ReadPage) -> None:
        filled: Filled = asyncio.get_running_loop().create_future()
        self._ahead[machine] = read, filled
        self._spawn(self._fill(machine, read, filled))

    async def _fill(self, machine: PartitionMachine, read: ReadPage, filled: Filled) -> None:
        page = None
        try:
            page = await self._read(machine, read)
        except (StoreUnavailable, StoreUnknown, CorruptRow):
            # Who wants it asks again, and hears what is wrong.
            pass
        finally:
            if not filled.done():
                filled.set_result(page)

    async def _read(self, machine: PartitionMachine, read: ReadPage) -> Page:
        is_again = machine.rows.reloading is not None
        return await read_page(self._store, read, machine.rows.lacking, is_again=is_again)
