"""The next page of a partition is on its way while the last one is taken in: store and loop work at the same time.

A page may be taken in any time after it was read (what was cancelled, moved or written since has been told to the
holder), so it does not matter that one more is read early: it begins after the sweep that it belongs to has begun.

Of a queue that is reloaded, as fast as a worker takes it, a page is also put in order beside the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from timerd.core.partition import PartitionMachine, ReadPage, Reload, put_together
from timerd.model.errors import CorruptRow, StoreUnavailable, StoreUnknown
from timerd.model.storage import Page
from timerd.ports import Rows
from timerd.services.holding.paging import read_page

Filled = asyncio.Future[Page | None]
# A page of fewer is put in order where it is taken in.
INLINE_ROWS = 1_000


class PageAsked(NamedTuple):
    """A page that was read for a reload is no page of anything else."""

    read: ReadPage
    reload: Reload | None


class ReadAhead:
    """At most one page for each machine; what is not wanted any more goes with it."""

    def __init__(self, store: Rows, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._store = store
        self._spawn = spawn
        self._ahead: WeakKeyDictionary[PartitionMachine, tuple[PageAsked, Filled]] = WeakKeyDictionary()

    async def page(self, machine: PartitionMachine, read: ReadPage) -> Page:
        """Raises what the store raises."""
        asked = PageAsked(read, machine.reload)
        expected, filled = self._ahead.pop(machine, (None, None))
        page = await filled if filled is not None and expected == asked else None
        if page is None:
            page = await self._read(machine, asked)
        # Of keys it depends on the page before what is lacking.
        if not (page.done or read.keys_first or machine.phase.is_over):
            self._begin(machine, asked._replace(read=replace(read, cursor=page.cursor)))
        return page

    def _begin(self, machine: PartitionMachine, asked: PageAsked) -> None:
        filled: Filled = asyncio.get_running_loop().create_future()
        self._ahead[machine] = asked, filled
        self._spawn(self._fill(machine, asked, filled))

    async def _fill(self, machine: PartitionMachine, asked: PageAsked, filled: Filled) -> None:
        page = None
        try:
            page = await self._read(machine, asked)
        except (StoreUnavailable, StoreUnknown, CorruptRow):
            # Who wants it asks again, and hears what is wrong.
            pass
        finally:
            if not filled.done():
                filled.set_result(page)

    async def _read(self, machine: PartitionMachine, asked: PageAsked) -> Page:
        reload = asked.reload
        page = await read_page(self._store, asked.read, machine.lacking, is_again=reload is not None)
        if reload is None or sum(map(len, page.groups)) < INLINE_ROWS:
            return page
        groups = await asyncio.to_thread(put_together, reload, page.groups, machine.cursor)
        return replace(page, groups=groups)
