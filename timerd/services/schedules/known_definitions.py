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
        if not isinstance(request, FindEntries) or not all(map(is_definition, request.keys)):
            return await self._runner.perform(request)
        known = {key: stored for key in request.keys if (stored := self._recalled(key)) is not None}
        unknown = [key for key in request.keys if key not in known]
        if unknown:
            found = await self._runner.perform(FindEntries(unknown))
            assert isinstance(found, list)
            for key, stored in zip(unknown, found, strict=True):
                if stored is not None:
                    known[key] = stored
                    self._remember(key, stored)
        return [known.get(key) for key in request.keys]

    def _recalled(self, key: EntryKey) -> bytes | None:
        if key in self._known:
            self._known.move_to_end(key)
        return self._known.get(key)

    def _remember(self, key: EntryKey, stored: bytes) -> None:
        if len(stored) > MOST_BYTES:
            return
        self._known[key] = stored
        if len(self._known) > MOST:
            self._known.popitem(last=False)
