"""Reads that many ask for at once are made once, and begin after the last of them asked.

An insert reads the control row after its rows were written; one that finished writing in the same turn of the event
loop is served by the same read, and the reads of up to fifty places by one request.
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
        # A future for each who asks, so that one who gives up takes nothing from the others.
        self._asked: dict[K, list[asyncio.Future[V | None]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> V | None:
        loop = asyncio.get_running_loop()
        if not self._asked:
            loop.call_soon(self._begin)
        future: asyncio.Future[V | None] = loop.create_future()
        self._asked.setdefault(key, []).append(future)
        return await future

    def _begin(self) -> None:
        asked, self._asked = self._asked, {}
        keys = list(asked)
        for at in range(0, len(keys), MOST_KEYS):
            part = {key: asked[key] for key in keys[at : at + MOST_KEYS]}
            task = asyncio.get_running_loop().create_task(self._serve(part))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _serve(self, asked: Mapping[K, Sequence[asyncio.Future[V | None]]]) -> None:
        waiting = [(key, future) for key, futures in asked.items() for future in futures]
        try:
            found = await self._read(list(asked))
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for key, future in waiting:
            if not future.done():
                future.set_result(found.get(key))
