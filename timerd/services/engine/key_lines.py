"""Lines in front of keys: calls that want one key of the caller's choice go one after the other, as they came.

Side by side they would take the key from each other: each would see the task of another one end, and the one that the
store hears last would stand, or none would come to its end. The protocol bears that, for calls by other instances know
nothing of these lines (core/protocol/keys.py); here nobody has to wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from timerd.model.registers import RegisterKey


class KeyLines:
    """The calls of this instance. A key that nobody wants takes no room."""

    def __init__(self) -> None:
        # The end of the last one of each line.
        self._last: dict[RegisterKey, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._last)

    @asynccontextmanager
    async def place(self, keys: Collection[RegisterKey]) -> AsyncIterator[None]:
        """Behind all who came before for any of the keys. A call takes its places in all lines at one moment, so of two
        calls one is behind the other in each line in which both are."""
        before = {self._last[key] for key in keys if key in self._last}
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last.update(dict.fromkeys(keys, over))
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._leave(keys, over, before)

    def _leave(
        self, keys: Collection[RegisterKey], over: asyncio.Future[None], before: Collection[asyncio.Future[None]]
    ) -> None:
        """Also of one that has failed. Of one that was given up in line those behind it are behind those before it."""
        if (ahead := next((each for each in before if not each.done()), None)) is not None:
            ahead.add_done_callback(lambda _: self._leave(keys, over, before))
            return
        over.set_result(None)
        for key in keys:
            if self._last.get(key) is over:
                del self._last[key]
