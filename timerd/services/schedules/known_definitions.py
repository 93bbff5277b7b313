"""Definitions of schedules, remembered by their names: one is written once and never changed, so a tick reads it only
where this instance has not read it before.

One that is removed meanwhile is found here for a while: that is as if it had been read a moment before, and the
compare-and-set of the register refuses what goes by it.
"""

from __future__ import annotations

from collections import OrderedDict

from timerd.core.protocol import FindEntries, Request
from timerd.model.schedules import is_definition
from timerd.model.storage import EntryKey
from timerd.services.holding.driving import Performs

# Together 4 MiB at most: those of large payloads are read each time.
MOST = 1_024
MOST_BYTES = 4_096


class KnownDefinitions:
    """Implements Performs."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        # Those that were asked for last are at the end.
        self._known: OrderedDict[EntryKey, bytes] = OrderedDict()

    async def perform(self, request: Request) -> object:
        if not isinstance(request, FindEntries) or len(request.keys) != 1 or not is_definition(request.keys[0]):
            return await self._runner.perform(request)
        [key] = request.keys
        if key in self._known:
            self._known.move_to_end(key)
            return [self._known[key]]
        found = await self._runner.perform(request)
        assert isinstance(found, list)
        if found[0] is not None and len(found[0]) <= MOST_BYTES:
            self._remember(key, found[0])
        return found

    def _remember(self, key: EntryKey, stored: bytes) -> None:
        self._known[key] = stored
        if len(self._known) > MOST:
            self._known.popitem(last=False)
