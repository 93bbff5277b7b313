"""Writers of an application: each transaction changes rows of the application and asks for tasks; some roll back.

What is wanted stands in tables of the application, changed in the same transactions: so the database itself says what
there has to be, also of a commit whose answer was lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random

from tests.outbox.shops import Shop

# Far enough that nothing fires while the test looks.
AHEAD_MS = 86_400_000
_KEYS = 40


class RolledBack(Exception):
    """As an application does that changes its mind."""


class Writer:
    """Its keys are its own, so that each has an order; a key is scheduled again after it was cancelled."""

    def __init__(self, kind: type[Shop], url: str, name: str, seed: int, start_ms: int, pause_s: float) -> None:
        self._kind = kind
        self._url = url
        self._name = name
        self._rng = Random(seed)
        self._start_ms = start_ms
        self._pause_s = pause_s
        self._number = 0
        self.counts: Counter[str] = Counter()

    async def run(self, stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            with suppress(*self._kind.failures):
                shop = await self._kind.opened(self._url)
                try:
                    await self._write(shop, stopped)
                finally:
                    await shop.close()
            await asyncio.sleep(0.1)

    async def _write(self, shop: Shop, stopped: asyncio.Event) -> None:
        while not stopped.is_set():
            try:
                async with shop.transaction():
                    await self._change(shop)
                    if self._rng.random() < 0.1:
                        raise RolledBack
                self.counts["committed"] += 1
            except RolledBack:
                self.counts["rolled back"] += 1
            await asyncio.sleep(self._pause_s)

    def _instant(self) -> int:
        return self._start_ms + AHEAD_MS + self._rng.randrange(3_600_000)

    async def _change(self, shop: Shop) -> None:
        for _ in range(self._rng.randrange(3)):
            self._number += 1
            await shop.plain(f"{self._name} {self._number}", self._instant())
        for key in self._rng.sample(range(_KEYS), 2):
            await self._keyed(shop, f"{self._name}-{key}")

    async def _keyed(self, shop: Shop, key: str) -> None:
        version, is_there = await shop.find(key)
        if not is_there:
            await shop.schedule(key, version + 1, self._instant())
        elif self._rng.random() < 0.5:
            await shop.move(key, self._instant())
            self.counts["moved"] += 1
        else:
            await shop.cancel(key)
            self.counts["cancelled"] += 1
