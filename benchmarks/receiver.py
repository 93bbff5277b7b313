"""The worker: a process that notes when its handler is entered, and for which task.

Where the last millisecond is asked for it keeps numbers, not deliveries: of those Python's collector would look at
twenty thousand, in the middle of it, and hold the handlers up for 20 ms. In a burst it keeps what it was given, and all
reckoning comes afterwards.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator

from benchmarks.child import Answer, obey
from benchmarks.received import Received
from benchmarks.stats import summary
from timerd.worker import Delivery, Worker

CALLS_AT_ONCE = 1_000
CALLS_A_QUEUE = 10
QUEUES_A_WORKER = 500
# Handlers only append; how often is looked whether all are there costs them nothing.
LOOK_EVERY_S = 0.02
# What came twice is not always there when the last one is.
LISTEN_S = 0.3
TIMELINE_POINTS = 300


class Receiver:
    """A worker on one queue, with a handler for batches or one called for each task; or several on many queues."""

    def __init__(self) -> None:
        self._workers: list[tuple[Worker, asyncio.Task[None]]] = []
        self._entered: list[tuple[int, list[Delivery]]] = []
        self._received = 0
        self._late_ms = array("d")
        self._numbers = array("Q")
        self._dues_ms = array("q")
        self._collected = Received()
        self._first_ms = self._last_ms = 0.0
        self._gate = asyncio.Event()

    async def start(
        self, target: str, queue: str, batches: bool, compact: bool = False, holds: int = 0, at_once: int = 0
    ) -> Answer:
        """`compact`: only numbers are kept. `holds`: none ends, and so many are in hand. `at_once`: handlers, if not a
        thousand."""
        worker = Worker(target)
        if holds:
            worker.on(queue, concurrency=holds)(self._hold)
        elif batches:
            worker.on_batch(queue)(self._note if compact else self._on_batch)
        else:
            worker.on(queue, concurrency=at_once or CALLS_AT_ONCE)(self._note_one if compact else self._on_task)
        self._run(worker)
        return {}

    async def start_many(self, target: str, queues: int) -> Answer:
        """On q0, q1 and so on, some hundreds a worker; only numbers are kept."""
        for first in range(0, queues, QUEUES_A_WORKER):
            worker = Worker(target)
            for number in range(first, min(queues, first + QUEUES_A_WORKER)):
                worker.on(f"q{number}", concurrency=CALLS_A_QUEUE)(self._note_one)
            self._run(worker)
        return {"workers": len(self._workers)}

    def _run(self, worker: Worker) -> None:
        self._workers.append((worker, asyncio.create_task(worker.run())))

    async def ready(self) -> Answer:
        return {}

    async def stop(self) -> Answer:
        for worker, running in self._workers:
            await worker.stop()
            await running
        return {}

    async def _on_batch(self, deliveries: list[Delivery]) -> None:
        self._entered.append((time.time_ns(), deliveries))
        self._received += len(deliveries)

    async def _on_task(self, delivery: Delivery) -> None:
        self._entered.append((time.time_ns(), [delivery]))
        self._received += 1

    async def _note_one(self, delivery: Delivery) -> None:
        await self._note([delivery])

    async def _hold(self, delivery: Delivery) -> None:
        await self._on_task(delivery)
        await self._gate.wait()

    async def _note(self, deliveries: list[Delivery]) -> None:
        at_ms = time.time_ns() / 1e6
        dues_ms = [delivery.fire_at_ms for delivery in deliveries]
        self._dues_ms.extend(dues_ms)
        self._late_ms.extend([at_ms - due_ms for due_ms in dues_ms])
        self._numbers.extend([int.from_bytes(delivery.payload[:8]) for delivery in deliveries])
        self._received += len(deliveries)
        self._first_ms, self._last_ms = self._first_ms or at_ms, at_ms

    async def collect_compact(self, count: int, patience_s: float) -> Answer:
        """As `collect`, of a worker that keeps numbers only."""
        await self._wait(count, patience_s)
        return self._noted()

    def _noted(self) -> Answer:
        span_s = (self._last_ms - self._first_ms) / 1e3
        answer = summary(self._late_ms, self._numbers) | {"span_s": span_s, "last_ms": self._last_ms}
        self._collected = Received(self._dues_ms, self._late_ms, self._numbers)
        self._dues_ms, self._late_ms, self._numbers = array("q"), array("d"), array("Q")
        self._received, self._first_ms = 0, 0.0
        return answer

    async def due_between(self, from_ms: float, until_ms: float) -> Answer:
        """Of what was collected last, by a worker that keeps numbers only."""
        return self._collected.due_between(from_ms, until_ms)

    async def unexplained(self, rate_per_s: float) -> Answer:
        """Of what was collected last, by a worker that keeps numbers only."""
        return {"most_ms": self._collected.unexplained_ms(rate_per_s)}

    async def collect(self, count: int, patience_s: float, since_ms: float = 0, quiet_s: float = LISTEN_S) -> Answer:
        """Waits for so many different tasks, or until nothing has come for a while, and forgets them.

        `since_ms`: tell how many different tasks had come, by the time from then on. `quiet_s`: what comes after the
        last one is waited for so long, to count what comes twice."""
        await self._wait(count, patience_s, quiet_s)
        if self._numbers:
            return self._noted()
        entered, self._entered, self._received = self._entered, [], 0
        return _summary(entered) | ({"timeline": _timeline(entered, since_ms)} if since_ms else {})

    async def came(self, count: int, patience_s: float) -> Answer:
        """When so many different tasks have come, or nothing for a while."""
        wanted = count
        while await self._reach(wanted, patience_s) and (missing := count - self._distinct()) > 0:
            wanted = self._received + missing
        return {}

    async def _wait(self, count: int, patience_s: float, quiet_s: float = LISTEN_S) -> None:
        await self.came(count, patience_s)
        await self._reach(1 << 60, quiet_s)

    async def _reach(self, received: int, patience_s: float) -> bool:
        seen, heard_s = -1, time.monotonic()
        while self._received < received and time.monotonic() < heard_s + patience_s:
            if self._received != seen:
                seen, heard_s = self._received, time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
        return self._received >= received

    def _distinct(self) -> int:
        """A task that comes twice makes up for no other. Not looked at before as many have come as are wanted: in a
        burst that would hold the handlers up."""
        return len(set(self._numbers or _numbers(self._entered)))


def _numbers(entered: list[tuple[int, list[Delivery]]]) -> Iterator[int]:
    return (int.from_bytes(delivery.payload[:8]) for _, deliveries in entered for delivery in deliveries)


def _timeline(entered: list[tuple[int, list[Delivery]]], since_ms: float) -> list[tuple[float, int]]:
    """At most a few hundred points, the last of them where the last of all tasks came for the first time."""
    seen: set[int] = set()
    points: list[tuple[float, int]] = []
    for at_ns, batch in entered:
        seen.update(int.from_bytes(delivery.payload[:8]) for delivery in batch)
        if not points or len(seen) > points[-1][1]:
            points.append((at_ns / 1e6 - since_ms, len(seen)))
    return points[:: len(points) // TIMELINE_POINTS + 1] + points[-1:]


def _summary(entered: list[tuple[int, list[Delivery]]]) -> Answer:
    late_ms = (at_ns / 1e6 - delivery.fire_at_ms for at_ns, batch in entered for delivery in batch)
    return summary(late_ms, _numbers(entered))


async def main() -> None:
    receiver = Receiver()
    asked = ("came", "due_between", "unexplained")
    verbs = ("ready", "start", "start_many", "stop", "collect", "collect_compact", *asked)
    await obey({verb: getattr(receiver, verb) for verb in verbs})


if __name__ == "__main__":
    asyncio.run(main())
