"""A worker whose handlers take time, and which looks after keys: in what order the tasks of a key begin, whether two of
one are at work at the same time, and how many of each had begun among the first.

A task's number says its key: the tasks of a series take the keys of their series in turn.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter

from benchmarks.child import Answer, obey
from benchmarks.received import Received
from benchmarks.stats import summary
from timerd.worker import Delivery, Worker

LOOK_EVERY_S = 0.02
# What comes twice is not always there when the last one is.
LISTEN_S = 0.3


class KeyedWorker:
    """`start` comes first, then phases that end with `collect`."""

    def __init__(self) -> None:
        self._dues_ms, self._late_ms, self._numbers = array("q"), array("d"), array("Q")
        self._collected = Received()
        self._last: dict[int, int] = {}
        self._busy: set[int] = set()
        self._out_of_order = self._two_at_once = self._ended = 0
        self._released = asyncio.Event()

    async def ready(self) -> Answer:
        return {}

    async def start(
        self, target: str, queue: str, at_once: int, keys: int = 0, takes_ms: float = 0, hangs: int = -1
    ) -> Answer:
        """`keys`: how many ordering keys there are, 0: none. `takes_ms`: how long a handler sleeps. `hangs`: the number
        of the task whose handler does not end before `release`."""
        self._keys, self._takes_s, self._hangs = keys, takes_ms / 1e3, hangs
        self._worker = Worker(target)
        self._worker.on(queue, concurrency=at_once)(self._work)
        self._running = asyncio.create_task(self._worker.run())
        return {}

    async def stop(self) -> Answer:
        self._released.set()
        await self._worker.stop()
        await self._running
        return {}

    async def release(self) -> Answer:
        self._released.set()
        return {}

    async def _work(self, delivery: Delivery) -> None:
        number = self._note(delivery)
        key = number % self._keys if self._keys else number
        self._begin(key, number)
        if self._takes_s:
            await asyncio.sleep(self._takes_s)
        if number == self._hangs:
            await self._released.wait()
        self._busy.discard(key)
        self._ended += 1

    def _note(self, delivery: Delivery) -> int:
        number = int.from_bytes(delivery.payload[:8])
        self._late_ms.append(time.time_ns() / 1e6 - delivery.fire_at_ms)
        self._dues_ms.append(delivery.fire_at_ms)
        self._numbers.append(number)
        return number

    def _begin(self, key: int, number: int) -> None:
        if self._keys:
            self._out_of_order += self._last.get(key, -1) >= number
            self._last[key] = number
        self._two_at_once += key in self._busy
        self._busy.add(key)

    async def collect(self, count: int, patience_s: float) -> Answer:
        """When so many have begun, or nothing has for a while: how late they were. They are forgotten."""
        await self.begun(count, patience_s)
        await asyncio.sleep(LISTEN_S)
        broken = {"out_of_order": self._out_of_order, "two_at_once": self._two_at_once}
        self._collected = Received(self._dues_ms, self._late_ms, self._numbers)
        self._dues_ms, self._late_ms, self._numbers = array("q"), array("d"), array("Q")
        return summary(self._collected.late_ms, self._collected.numbers) | broken

    async def begun(self, count: int, patience_s: float) -> Answer:
        """When so many have begun, or nothing has for a while."""
        seen, heard_s = -1, time.monotonic()
        while len(self._numbers) < count and time.monotonic() < heard_s + patience_s:
            if len(self._numbers) != seen:
                seen, heard_s = len(self._numbers), time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
        return {"begun": len(self._numbers)}

    async def due_between(self, from_ms: float, until_ms: float) -> Answer:
        """Of what was collected last."""
        return self._collected.due_between(from_ms, until_ms)

    async def shares(self, keys: int, first: int) -> Answer:
        """Of the first that began of what was collected last: how many of each key."""
        begun = Counter(number % keys for number in self._collected.numbers[:first])
        return {"of": [begun[key] for key in range(keys)]}


async def main() -> None:
    worker = KeyedWorker()
    verbs = ("ready", "start", "stop", "release", "collect", "begun", "due_between", "shares")
    await obey({verb: getattr(worker, verb) for verb in verbs})


if __name__ == "__main__":
    asyncio.run(main())
