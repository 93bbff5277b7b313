"""Ordinary use beside the attack: tasks of a queue of their own, each of which must arrive once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from datetime import timedelta
from random import Random

from timerd.client import Client
from timerd.worker import Delivery, Worker

NAMESPACE, QUEUE = "control", "control"
EVERY_S = 0.02
FURTHEST_MS = 2_000


class Control:
    """Schedules and works; `wanted` are the payloads of what was acknowledged, `got` what came."""

    def __init__(self, address: str, random: Random) -> None:
        self.wanted: set[bytes] = set()
        self.got: Counter[bytes] = Counter()
        self._address = address
        self._random = random
        self._is_all = False
        self._complete = asyncio.Event()

    async def run(self, until_s: float) -> None:
        """Until then, by the loop's clock, and until everything has arrived (or does not)."""
        worker = Worker(self._address, namespace=NAMESPACE)
        worker.on(QUEUE, concurrency=64)(self._take)
        working = asyncio.create_task(worker.run())
        async with Client(self._address, namespace=NAMESPACE) as client:
            await self._schedule(client, until_s)
        await self._arrived()
        await worker.stop()
        await working

    async def _schedule(self, client: Client, until_s: float) -> None:
        number = 0
        while asyncio.get_running_loop().time() < until_s:
            payload = b"%d" % number
            delay = timedelta(milliseconds=self._random.randrange(FURTHEST_MS))
            await client.schedule(QUEUE, payload, delay=delay)
            self.wanted.add(payload)
            number += 1
            await asyncio.sleep(EVERY_S)
        self._is_all = True
        self._look()

    async def _take(self, delivery: Delivery) -> None:
        self.got[delivery.payload] += 1
        self._look()

    def _look(self) -> None:
        if self._is_all and self.wanted <= self.got.keys():
            self._complete.set()

    async def _arrived(self, patience_s: float = 30.0) -> None:
        """Or the patience is at its end: `violations` tells."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._complete.wait(), patience_s)

    def violations(self) -> list[str]:
        """Sentences; none where all is well."""
        missing = self.wanted - self.got.keys()
        twice = [payload for payload, times in self.got.items() if times > 1]
        said = [f"{len(missing)} ordinary tasks did not arrive: {sorted(missing)[:5]}."] if missing else []
        return said + ([f"{len(twice)} ordinary tasks arrived twice: {sorted(twice)[:5]}."] if twice else [])
