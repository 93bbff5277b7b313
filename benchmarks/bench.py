"""What a measure works with: servers with fresh folders, a loader, workers, and the scale of the run."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.figures import BenchmarkFailed, TasksLost, TooBusy
from benchmarks.processes import Child, Server

PAYLOAD_BYTES = 200
SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
# Slower than this, storing is a finding of its own.
SLOWEST_STORING_PER_S = 40_000
PATIENCE_S = 60.0
# Below this scale a run shows that a measure works, and nothing of how fast anything is.
SMALL = 0.1
LEAST_MS = 300
LOOK_EVERY_S = 0.1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Listening(Protocol):
    """A server, wherever it runs."""

    @property
    def address(self) -> str: ...


@dataclass
class Bench:
    """One run of one measure: what it starts ends with `stack`."""

    folder: Path
    scale: float
    seed: int
    stack: AsyncExitStack
    # How much longer than on a quiet machine things may take before the first task is due.
    slack: int = 1
    _numbers: Callable[[], int] = field(default_factory=lambda: itertools.count().__next__)

    def count(self, full: int, least: int = 200) -> int:
        return max(least, round(full * self.scale))

    def seconds(self, full: float, least: float = 0.3) -> float:
        return max(least, full * self.scale)

    def processes(self, full: int) -> int:
        """Each takes a second of a busy machine to start."""
        return full if self.scale >= SMALL else 2

    def lead_ms(self, count: int) -> int:
        """How far ahead the first of so many tasks is due, so that all are stored before."""
        least_ms = SECOND_MS if self.scale >= SMALL else LEAST_MS
        return self.slack * (least_ms + count * SECOND_MS // SLOWEST_STORING_PER_S)

    async def server(self, *options: str, data: Path | None = None) -> Server:
        """With an empty data folder, or with a copy of that one."""
        return await self.server_in(await self.folder_with(data), *options)

    async def folder_with(self, data: Path | None) -> Path:
        folder = self.folder / f"server-{self._numbers()}"
        folder.mkdir(parents=True)
        if data:
            await asyncio.to_thread(shutil.copytree, data, folder / "data")
            # Else the kernel writes it out while others wait for an fsync of theirs.
            await asyncio.to_thread(os.sync)
        return folder

    async def server_in(self, folder: Path, *options: str) -> Server:
        server = await Server.start(folder, *options)
        self.stack.push_async_callback(server.stop)
        return server

    async def loader(self, server: Listening) -> Loader:
        child = await Child.start("load generator", "-m", "benchmarks.loader")
        self.stack.push_async_callback(child.stop)
        await child.ask("start", target=server.address, seed=self.seed + self._numbers())
        return Loader(child)

    async def again(self, server: Server) -> Server:
        """The same data at the same address, after it has ended."""
        server = await Server.start(server.folder, listen=server.address)
        self.stack.push_async_callback(server.stop)
        return server

    async def worker(self) -> Child:
        """A process that will work, and has all it needs in memory."""
        # It complains when its server is gone, which in some measures is as it should be.
        child = await Child.start("worker", "-m", "benchmarks.receiver", log=self.folder / "worker.log")
        self.stack.push_async_callback(child.stop)
        await child.ask("ready")
        return child

    async def receiver(self, server: Listening, loader: Loader, queue: str, *, batches: bool, **how: int) -> Receiver:
        """Returns when the server knows the worker. `how`: see the worker's own `start`."""
        before = (await loader.info())["workers"]
        child = await self.worker()
        await child.ask("start", target=server.address, queue=queue, batches=batches, **how)
        await loader.wait_for("the worker to connect", lambda info: info["workers"] > before)
        return Receiver(child)

    async def receiver_of_many(self, server: Listening, loader: Loader, queues: int) -> Receiver:
        """On q0, q1 and so on. Returns when the server knows all its workers."""
        child = await self.worker()
        workers = (await child.ask("start_many", target=server.address, queues=queues))["workers"]
        await loader.wait_for("the workers to connect", lambda info: info["workers"] >= workers)
        return Receiver(child)


@dataclass(frozen=True, slots=True)
class Span:
    """Where the due times lie."""

    from_ms: int
    span_ms: int


@dataclass(frozen=True, slots=True)
class Loader:
    """The load generator, seen from here."""

    child: Child

    async def schedule(
        self, queue: str, count: int, span: Span, first: int = 0, keys: Mapping[str, int] | None = None
    ) -> dict[str, Any]:
        """Numbered from `first` on. `keys`: how many `ordering_keys` and `limit_keys` they have, in turn."""
        answer = await self.child.ask(
            "schedule",
            queue=queue,
            count=count,
            first=first,
            from_ms=span.from_ms,
            span_ms=span.span_ms,
            payload_bytes=PAYLOAD_BYTES,
            keys=keys,
        )
        _stored_in_time(count, answer, span)
        return answer

    async def spread(self, queues: int, count: int, span: Span) -> None:
        """Over q0, q1 and so on in turn."""
        given = {"from_ms": span.from_ms, "span_ms": span.span_ms, "payload_bytes": PAYLOAD_BYTES}
        answer = await self.child.ask("spread", queues=queues, count=count, **given)
        _stored_in_time(count, answer, span)

    async def single(self, queue: str, callers: int, start_ms: int, seconds: float, span: Span) -> dict[str, Any]:
        return await self.child.ask(
            "single",
            queue=queue,
            callers=callers,
            start_ms=start_ms,
            seconds=seconds,
            from_ms=span.from_ms,
            span_ms=span.span_ms,
            payload_bytes=PAYLOAD_BYTES,
        )

    async def soon(self, queue: str, seconds: float) -> int:
        """How many were stored."""
        answer = await self.child.ask("soon", queue=queue, seconds=seconds, payload_bytes=PAYLOAD_BYTES)
        return int(answer["stored"])

    async def trickle(self, queue: str, rate_per_s: int, seconds: float, span: Span) -> dict[str, Any]:
        given = {"rate_per_s": rate_per_s, "seconds": seconds, "from_ms": span.from_ms, "span_ms": span.span_ms}
        return await self.child.ask("trickle", queue=queue, **given)

    async def cancel_singles(self, start_ms: int, seconds: float) -> dict[str, Any]:
        return await self.child.ask("cancel_singles", start_ms=start_ms, seconds=seconds)

    async def cancel(self) -> dict[str, Any]:
        return await self.child.ask("cancel")

    async def info(self) -> Mapping[str, int]:
        return await self.child.ask("info")

    async def bucket(self, at_ms: int) -> Mapping[str, Any]:
        """The five minutes that have that instant: `held`, `waiting`, `finished_ms`."""
        return await self.child.ask("bucket", at_ms=at_ms)

    async def count(self, queue: str, span: Span) -> int:
        answer = await self.child.ask("count", queue=queue, from_ms=span.from_ms, span_ms=span.span_ms)
        return int(answer["count"])

    async def verify_stored(self, queue: str, count: int, span: Span) -> None:
        none_lost("stored", count, await self.count(queue, span))

    async def wait_for(self, what: str, reached: Callable[[Mapping[str, int]], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not reached(await self.info()):
            if time.monotonic() > end_s:
                raise BenchmarkFailed(f"Waited {PATIENCE_S:.0f} s for {what}; the server says {await self.info()}.")
            await asyncio.sleep(LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class Receiver:
    """The worker, seen from here."""

    child: Child

    async def came(self, count: int) -> None:
        """Before what is read at that moment: `collect` listens a while longer for what comes twice."""
        await self.child.ask("came", count=count, patience_s=PATIENCE_S)

    async def collect(self, count: int, *, compact: bool = False, **given: float) -> dict[str, Any]:
        """So many deliveries, each of another task."""
        verb = "collect_compact" if compact else "collect"
        answer = await self.child.ask(verb, count=count, **{"patience_s": PATIENCE_S, **given})
        none_lost("delivered", count, answer["distinct"])
        return answer

    async def due_between(self, from_ms: float, until_ms: float) -> dict[str, Any]:
        """Of what it collected last, `compact`: what was due from then until then. Of nothing there is no percentile,
        and it must not look like a good one."""
        answer = await self.child.ask("due_between", from_ms=from_ms, until_ms=until_ms)
        if not answer["received"]:
            raise BenchmarkFailed(f"No task was due in the {until_ms - from_ms:,.0f} ms that are asked about.")
        return answer

    async def unexplained_ms(self, rate_per_s: float) -> float:
        """Of what it collected last, `compact`: by how much a task came later than at that rate, at most."""
        answer: float = (await self.child.ask("unexplained", rate_per_s=rate_per_s))["most_ms"]
        return answer

    async def stop(self) -> None:
        await self.child.ask("stop")
        await self.child.stop()


def _stored_in_time(count: int, answer: Mapping[str, Any], span: Span) -> None:
    if answer["ended_ms"] >= span.from_ms:
        raise TooBusy(f"Storing {count:,} tasks took until the first was due: the machine is too busy.")


def none_lost(what: str, expected: int, found: int) -> None:
    if found != expected:
        raise TasksLost(f"{expected:,} tasks were to be {what}, {found:,} were.")
