"""The load generator: a process with one client, told by the benchmark what to schedule, cancel and count."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.child import Answer, obey
from timerd.client import CancelOutcome, Client, SyncClient, Task

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A few calls under way keep the server busy; each is a message of up to 1,000 ids.
CANCEL_CALLS = 4
TRICKLES_PER_S = 100
SOON_MS = 200
SOON_EVERY_S = 0.005
# Numbers from one of its multiples on are a series of tasks, with keys of its own.
SERIES = 1 << 32


def instant(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def _keys(first: int, count: int, number: int) -> list[str] | None:
    if not number:
        return None
    names = [f"key-{first // SERIES}-{each}" for each in range(number)]
    return [names[at % number] for at in range(first, first + count)]


class Loader:
    """`start` comes first. What it schedules last can be cancelled."""

    def __init__(self) -> None:
        self._client = Client()
        self._blocking: SyncClient
        self._tasks: Sequence[Task] = []
        self._random = random.Random()

    async def start(self, target: str, seed: int, options: Mapping[str, Any] | None = None) -> Answer:
        """`options` are for others that are asked the same: the SDK finds its own way."""
        self._random.seed(seed)
        self._client = await Client(target, timeout=60).__aenter__()
        # For a process that has one call under way.
        self._blocking = SyncClient(target, timeout=60)
        await self._client.server_info()
        return {}

    async def stop(self) -> Answer:
        self._blocking.close()
        await self._client.__aexit__(None, None, None)
        return {}

    def _payload(self, number: int, payload_bytes: int) -> bytes:
        return number.to_bytes(8) + self._random.randbytes(payload_bytes - 8)

    async def schedule(
        self,
        queue: str,
        count: int,
        from_ms: int,
        span_ms: int,
        payload_bytes: int,
        first: int = 0,
        limit_s: float | None = None,
        keys: Mapping[str, int] | None = None,
    ) -> Answer:
        """Tasks due at random instants of a span. Making them is not counted; packing, sending and all else is.

        `limit_s` is for others that are asked the same and take longer than anybody waits. `keys`: how many ordering
        keys and limit keys they have; each task has that of its number."""
        dues = [from_ms + self._random.randrange(span_ms) for _ in range(count)]
        payloads = [self._payload(number, payload_bytes) for number in range(first, first + count)]
        ordering, limiting = (
            _keys(first, count, (keys or {}).get(kind, 0)) for kind in ("ordering_keys", "limit_keys")
        )
        # What the benchmark itself made is no work for the garbage collector while the client is measured.
        gc.collect()
        gc.freeze()
        begun = time.perf_counter()
        self._tasks = await self._client.schedule_columns(
            queue, payloads, dues, ordering_keys=ordering, limit_keys=limiting
        )
        return {"stored": len(self._tasks), "seconds": time.perf_counter() - begun, "ended_ms": time.time() * 1e3}

    async def spread(self, queues: int, count: int, from_ms: int, span_ms: int, payload_bytes: int) -> Answer:
        """Over q0, q1 and so on in turn, a message for each."""
        dues = [from_ms + self._random.randrange(span_ms) for _ in range(count)]
        payloads = [self._payload(number, payload_bytes) for number in range(count)]
        stored = 0
        for queue in range(min(queues, count)):
            own = slice(queue, count, queues)
            stored += len(await self._client.schedule_columns(f"q{queue}", payloads[own], dues[own]))
        return {"stored": stored, "ended_ms": time.time() * 1e3}

    async def single(
        self, queue: str, callers: int, start_ms: float, seconds: float, from_ms: int, span_ms: int, payload_bytes: int
    ) -> Answer:
        """Callers that wait for each OK before the next call. One by itself is a program without an event loop, and
        uses the client for those; several share the asyncio client."""
        waits_ms: list[float] = []
        await asyncio.sleep(start_ms / 1e3 - time.time())
        end_s = time.monotonic() + seconds

        def task() -> tuple[bytes, datetime]:
            return self._payload(len(waits_ms), payload_bytes), instant(from_ms + self._random.randrange(span_ms))

        async def caller() -> None:
            while time.monotonic() < end_s:
                payload, due = task()
                begun = time.perf_counter()
                await self._client.schedule(queue, payload, at=due)
                waits_ms.append((time.perf_counter() - begun) * 1e3)

        def lone_caller() -> None:
            while time.monotonic() < end_s:
                payload, due = task()
                begun = time.perf_counter()
                self._blocking.schedule(queue, payload, at=due)
                waits_ms.append((time.perf_counter() - begun) * 1e3)

        if callers == 1:
            lone_caller()
        else:
            await asyncio.gather(*(caller() for _ in range(callers)))
        return {"stored": len(waits_ms), "ended_ms": time.time() * 1e3, "waits_ms": waits_ms}

    async def cancel(self) -> Answer:
        """All of the last schedule, by id, in messages of 1,000."""
        ids = [task.id for task in self._tasks]
        share = -(-len(ids) // CANCEL_CALLS)
        calls: list[Awaitable[list[CancelOutcome]]] = []
        begun = time.perf_counter()
        calls = [self._client.cancel_many(ids[start : start + share]) for start in range(0, len(ids), share)]
        outcomes = [outcome for part in await asyncio.gather(*calls) for outcome in part]
        seconds = time.perf_counter() - begun
        return {"cancelled": outcomes.count(CancelOutcome.CANCELLED), "asked": len(ids), "seconds": seconds}

    async def cancel_singles(self, start_ms: float, seconds: float) -> Answer:
        """Of the last schedule, by id, one call after the other."""
        waits_ms: list[float] = []
        outcomes: list[CancelOutcome] = []
        await asyncio.sleep(start_ms / 1e3 - time.time())
        end_s = time.monotonic() + seconds
        for task in self._tasks:
            if time.monotonic() > end_s:
                break
            begun = time.perf_counter()
            outcomes.append(self._blocking.cancel(task.id))
            waits_ms.append((time.perf_counter() - begun) * 1e3)
        cancelled = outcomes.count(CancelOutcome.CANCELLED)
        return {"cancelled": cancelled, "asked": len(outcomes), "ended_ms": time.time() * 1e3, "waits_ms": waits_ms}

    async def soon(self, queue: str, seconds: float, payload_bytes: int) -> Answer:
        """One task after the other, each due in a moment."""
        begun_s, stored = time.monotonic(), 0
        while time.monotonic() - begun_s < seconds:
            due = instant(round(time.time() * 1e3) + SOON_MS)
            await self._client.schedule(queue, self._payload(stored, payload_bytes), at=due)
            stored += 1
            await asyncio.sleep(SOON_EVERY_S)
        return {"stored": stored}

    async def trickle(self, queue: str, rate_per_s: int, seconds: float, from_ms: int, span_ms: int) -> Answer:
        """Small messages at a steady rate, as a service schedules beside its work."""
        each, begun_s, stored = max(1, rate_per_s // TRICKLES_PER_S), time.monotonic(), 0
        while (passed_s := time.monotonic() - begun_s) < seconds:
            dues = [from_ms + self._random.randrange(span_ms) for _ in range(each)]
            tasks = [(self._payload(stored + at, 200), instant(due)) for at, due in enumerate(dues)]
            stored += len(await self._client.schedule_many(queue, tasks))
            await asyncio.sleep(max(0.0, stored / rate_per_s - (time.monotonic() - begun_s)))
        return {"stored": stored, "seconds": passed_s}

    async def count(self, queue: str, from_ms: int, span_ms: int) -> Answer:
        start, end = instant(from_ms), instant(from_ms + span_ms)
        return {"count": int(await self._client.count(start=start, end=end, queue=queue))}

    async def bucket(self, at_ms: int) -> Answer:
        """Whether it is held, how many of its tasks wait in memory, and when it was finished (0: it is not)."""
        infos = (await self._client.partition(instant(at_ms))).partitions
        held = [info.held for info in infos if info.HasField("held")]
        ends_ms = [info.control.finish_time.ToMilliseconds() for info in infos]
        return {
            "held": bool(held),
            "waiting": sum(one.waiting for one in held),
            "finished_ms": max(ends_ms) if ends_ms and all(ends_ms) else 0,
        }

    async def info(self) -> Answer:
        info = await self._client.server_info()
        return {"loaded": info.loaded, "workers": info.workers, "in_flight": info.in_flight}


async def main() -> None:
    loader = Loader()
    singles, many = ("single", "cancel_singles", "soon", "trickle"), ("schedule", "spread", "cancel")
    verbs = ("start", "stop", *singles, *many, "count", "bucket", "info")
    await obey({verb: getattr(loader, verb) for verb in verbs})


if __name__ == "__main__":
    asyncio.run(main())
