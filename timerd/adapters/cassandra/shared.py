"""Reads that many ask for at once are made once, and begin after the last of them asked.

An insert reads the control row after its rows were written; whoever finished writing in the same turn of the event loop
is served by the same read, and the reads of up to fifty places by one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST_KEYS = 50


class SharedReads(Generic[K, V]):
    """`read` is given different keys, and answers with those it found."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._asked: dict[K, asyncio.Future[V | None]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> V | None:
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._begin)
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = loop.create_future()
        # A waiter that gives up does not take the answer from the others.
        return await asyncio.shield(future)

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        keys = list(asked)
        for at in range(0, len(keys), MOST_KEYS):
            part = {key: asked[key] for key in keys[at : at + MOST_KEYS]}
            task = asyncio.get_running_loop().create_task(self._serve(part))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, asked: Mapping[K, asyncio.Future[V | None]]) -> None:
        try:
            found = await self._read(list(asked))
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            for future in asked.values():
                if not future.cancelled():
                    future.set_exception(error)
                    # Where all waiters have gone, nobody needs to hear of it.
                    future.exception()
            return
        for key, future in asked.items():
            if not future.cancelled():
                future.set_result(found.get(key))
