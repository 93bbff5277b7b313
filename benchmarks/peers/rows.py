"""The rows of the comparison: each is asked of every contender with a fresh server, and gives one figure or a few."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench import DAY_MS, HOUR_MS, MINUTE_MS, PAYLOAD_BYTES, SECOND_MS, SMALL, Loader, none_lost, now_ms
from benchmarks.figures import TooBusy
from benchmarks.peers.contenders import TIMERD, Contender
from benchmarks.peers.installed import Installed
from benchmarks.peers.servers import Running
from benchmarks.processes import Child, pss_bytes

QUEUE = "compared"
SINGLE_S = 2.0
STEADY_S = 3
BULK = 200_000
# Who stores more slowly is cut off then; the rate is of what was stored.
BULK_LIMIT_S = 1.5
CANCEL_EACH = 4_000
CANCEL_MANY = 50_000
SIZE = 200_000
START_IN_MS = 400
PATIENCE_S = 30.0
SPANS = {"within 5 min": 5 * MINUTE_MS, "within 1 h": HOUR_MS, "over 30 days": 30 * DAY_MS}
# The durable ones that are a server of their own. The others work on top of such a one, and a library is no rival.
SERVERS = ("redis-always", "beanstalkd-sync", "postgres")
LEAST_MS = 300
COUNTS, COUNT_EVERY_S = 20, 0.1
Found = dict[str, Any]


@dataclass
class Trial:
    """One contender, once, in one row: what it starts ends with `stack`."""

    contender: Contender
    tools: Installed
    folder: Path
    scale: float
    seed: int
    options: Mapping[str, int]
    stack: AsyncExitStack
    # How much longer than on a quiet machine storing may take.
    slack: int = 1
    _numbers: Callable[[], int] = field(default_factory=lambda: itertools.count().__next__)

    def count(self, full: int, least: int = 40) -> int:
        return max(least, round(full * self.scale))

    def seconds(self, full: float) -> float:
        return max(0.3, full * self.scale)

    @property
    def callers(self) -> int:
        """Processes; each takes a second of a busy machine to start."""
        return self.contender.sizes.callers if self.scale >= SMALL else 2

    async def server(self) -> Running:
        self.folder.chmod(0o755)
        return await self.stack.enter_async_context(self.contender.open(self.tools, self.folder))

    async def _child(self, what: str, module: str) -> Child:
        if self.contender is TIMERD:
            child = await Child.start(what, "-m", module)
        else:
            program, arguments, env = self.contender.command(self.tools)
            child = await Child.start(what, *arguments, program=program, env=env, log=self.folder / "client.log")
        self.stack.push_async_callback(child.stop)
        return child

    async def loader(self, server: Running, *, is_one_of_many: bool = False) -> Child:
        """One of many has one call in flight: more connections than one would only be there."""
        child = await self._child("load generator", "benchmarks.loader")
        seed, options = self.seed * 1_000 + self._numbers(), self._for_one() if is_one_of_many else dict(self.options)
        await child.ask("start", target=server.target, seed=seed, options=options)
        return child

    async def loaders(self, server: Running) -> list[Child]:
        return [await self.loader(server, is_one_of_many=True) for _ in range(self.callers)]

    def _for_one(self) -> dict[str, int]:
        return {**self.options, "writers": 1}

    async def receiver(self, server: Running, loader: Child, *, batches: bool) -> Child:
        """Returns when it receives."""
        if self.contender.in_one_process:
            await loader.ask("receive")
            return loader
        child = await self._child("worker", "benchmarks.receiver")
        if self.contender is TIMERD:
            await child.ask("start", target=server.target, queue=QUEUE, batches=batches, compact=not batches)
            await Loader(loader).wait_for("the worker to connect", lambda info: info["workers"] > 0)
        else:
            await child.ask("start", target=server.target, seed=0, options=self._for_one())
            await child.ask("receive")
        return child

    def _lead_ms(self, count: int, span_ms: int) -> int:
        """How far ahead the first of so many tasks is due, so that all are stored before."""
        storing_ms = count * SECOND_MS // self.contender.sizes.stores_per_s
        if self.contender.whole_seconds:
            storing_ms = max(storing_ms, span_ms + SECOND_MS)
        return self.slack * ((SECOND_MS if self.scale >= SMALL else LEAST_MS) + storing_ms)

    async def stored_ahead(self, loader: Child, count: int, span_ms: int) -> None:
        """All before the first is due. One instant is a whole second, on which the peer too that has no finer ones can
        fire."""
        from_ms = now_ms() + self._lead_ms(count, span_ms)
        if span_ms == 1:
            from_ms += -from_ms % SECOND_MS
        stored = await _schedule(loader, count, from_ms, span_ms)
        none_lost("stored", count, stored["stored"])
        if stored["ended_ms"] >= from_ms:
            raise TooBusy(f"Storing {count:,} tasks took until the first was due: the machine is too busy.")


async def _count(loader: Child, from_ms: int, span_ms: int, expected: int) -> None:
    """What was confirmed is there, as the server itself tells. What a worker is just fetching ahead is for a moment in
    none of the places that a peer counts, so it is asked again."""
    for _ in range(COUNTS):
        told = await loader.ask("count", queue=QUEUE, from_ms=from_ms, span_ms=span_ms)
        if told["count"] == expected:
            return
        await asyncio.sleep(COUNT_EVERY_S)
    none_lost("stored", expected, told["count"])


async def _schedule(loader: Child, count: int, from_ms: int, span_ms: int, **limits: float) -> Found:
    where = {"queue": QUEUE, "from_ms": from_ms, "span_ms": span_ms, "payload_bytes": PAYLOAD_BYTES}
    return await loader.ask("schedule", count=count, **where, **limits)


async def single(trial: Trial) -> Found:
    """Callers that wait for each OK, in processes of their own."""
    server = await trial.server()
    loaders = await trial.loaders(server)
    start_ms = now_ms() + START_IN_MS
    from_ms = start_ms + HOUR_MS
    where = {"queue": QUEUE, "from_ms": from_ms, "span_ms": HOUR_MS, "payload_bytes": PAYLOAD_BYTES}
    given = {"callers": 1, "start_ms": start_ms, "seconds": trial.seconds(SINGLE_S), **where}
    answers = await asyncio.gather(*(loader.ask("single", **given) for loader in loaders))
    stored = sum(one["stored"] for one in answers)
    await _count(loaders[0], from_ms, HOUR_MS, stored)
    return {"value": stored / _seconds(start_ms, answers), "tasks": stored}


def _seconds(start_ms: float, answers: list[Found]) -> float:
    ended_ms: float = max(answer["ended_ms"] for answer in answers)
    return (ended_ms - start_ms) / 1e3


def bulk(span_ms: int) -> Callable[[Trial], Awaitable[Found]]:
    async def run(trial: Trial) -> Found:
        server = await trial.server()
        loader = await trial.loader(server)
        from_ms, limit_s = now_ms() + 2 * MINUTE_MS, trial.seconds(BULK_LIMIT_S)
        stored = await _schedule(loader, trial.count(BULK), from_ms, span_ms, limit_s=limit_s)
        await _count(loader, from_ms, span_ms, stored["stored"])
        return {"value": stored["stored"] / stored["seconds"], "tasks": stored["stored"]}

    return run


async def fire(trial: Trial) -> Found:
    server = await trial.server()
    loader = await trial.loader(server)
    receiver = await trial.receiver(server, loader, batches=True)
    count = trial.count(trial.contender.sizes.fire)
    await trial.stored_ahead(loader, count, 1)
    got = await _received(receiver, count)
    return {"value": count / got["max_ms"] * 1e3, "tasks": count, "first_ms": got["first_ms"], **_odd(got, count)}


async def lateness(trial: Trial) -> Found:
    server = await trial.server()
    loader = await trial.loader(server)
    receiver = await trial.receiver(server, loader, batches=False)
    rate_per_s = trial.contender.sizes.rate_per_s
    count = trial.count(rate_per_s * STEADY_S)
    await trial.stored_ahead(loader, count, count * SECOND_MS // rate_per_s)
    got = await _received(receiver, count)
    kept = {name: got[name] for name in ("p50_ms", "p99_ms", "p999_ms", "curve")}
    return {"value": got["p99_ms"], "tasks": count, "rate_per_s": rate_per_s, **kept, **_odd(got, count)}


def _odd(got: Found, count: int) -> Found:
    """Of which there should be none."""
    return {"early": got["early"], "twice": got["received"] - count}


async def _received(receiver: Child, count: int) -> Found:
    got = await receiver.ask("collect", count=count, patience_s=PATIENCE_S)
    none_lost("delivered", count, got["distinct"])
    return got


async def cancel_singles(trial: Trial) -> Found:
    server = await trial.server()
    loaders = await trial.loaders(server)
    # What a slow one has not stored in time it has not to cancel either.
    limit_s, count, from_ms = trial.seconds(BULK_LIMIT_S), trial.count(CANCEL_EACH), now_ms() + HOUR_MS
    stored = await asyncio.gather(*(_schedule(one, count, from_ms, HOUR_MS, limit_s=limit_s) for one in loaders))
    start_ms = now_ms() + START_IN_MS
    given = {"start_ms": start_ms, "seconds": trial.seconds(SINGLE_S)}
    answers = await asyncio.gather(*(loader.ask("cancel_singles", **given) for loader in loaders))
    done = sum(one["cancelled"] for one in answers)
    none_lost("cancelled", sum(one["asked"] for one in answers), done)
    await _count(loaders[0], from_ms, HOUR_MS, sum(one["stored"] for one in stored) - done)
    return {"value": done / _seconds(start_ms, answers), "tasks": done}


async def cancel_many(trial: Trial) -> Found:
    server = await trial.server()
    loader = await trial.loader(server)
    from_ms, limit_s = now_ms() + HOUR_MS, trial.seconds(BULK_LIMIT_S)
    await _schedule(loader, trial.count(CANCEL_MANY), from_ms, HOUR_MS, limit_s=limit_s)
    answer = await loader.ask("cancel")
    none_lost("cancelled", answer["asked"], answer["cancelled"])
    await _count(loader, from_ms, HOUR_MS, 0)
    return {"value": answer["cancelled"] / answer["seconds"], "tasks": answer["cancelled"]}


async def memory(trial: Trial) -> Found:
    """Due in an hour; the idle server is subtracted. Where tasks wait in the worker, it counts too."""
    server = await trial.server()
    loader = await trial.loader(server)
    worker = await trial.receiver(server, loader, batches=True) if trial.contender.waits_in_worker else None

    def held_bytes() -> int:
        return server.pss_bytes() + (pss_bytes(worker.pid) if worker else 0)

    await asyncio.sleep(0.5)
    idle_bytes, disk_bytes = held_bytes(), server.disk_bytes()
    from_ms, limit_s = now_ms() + HOUR_MS, trial.seconds(BULK_LIMIT_S)
    count = (await _schedule(loader, trial.count(SIZE), from_ms, HOUR_MS, limit_s=limit_s))["stored"]
    await asyncio.sleep(trial.seconds(2.0))
    grown_bytes = server.disk_bytes() - disk_bytes
    # Files that were made ahead do not grow: then what a task takes of them is not known.
    on_disk = {"disk_bytes": grown_bytes / count} if grown_bytes else {}
    grown = held_bytes() - idle_bytes
    # Afterwards, for asking takes memory too.
    await _count(loader, from_ms, HOUR_MS, count)
    return {"value": grown / count, "tasks": count, **on_disk}


@dataclass(frozen=True, slots=True)
class Target:
    """What timerd has to reach: a ratio to the best durable peer (or to the named one) in the same run, or a figure."""

    limit: float
    ratio: bool = True
    against: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Without these peers nothing is said of a ratio."""
        return ((self.against,) if self.against else SERVERS) if self.ratio else ()


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    unit: str
    run: Callable[[Trial], Awaitable[Found]]
    target: Target
    more_is_better: bool = True
    cancels: bool = False
    # What a reader has to know to compare.
    note: str = ""

    def takes(self, contender: Contender) -> bool:
        return contender.cancels or not self.cancels


FIRE_NOTE = (
    "The instant is a whole second. beanstalkd knows delays of whole seconds only, so its tasks are put with a delay "
    "that is rounded down, and its tube is paused until the instant: rounding costs it nothing here."
)
LATENESS_NOTE = (
    "beanstalkd knows delays of whole seconds only, so each of its tasks is put a whole number of seconds before it is "
    "due: rounding costs it nothing here. Who stores or fires more slowly is asked for less a second."
)
MEMORY_NOTE = (
    "What the processes of the server hold beyond what they held when idle (PSS), divided by the tasks; pages of files "
    "that the kernel keeps are not counted. Redis and beanstalkd hold each task whole, with its payload, and what the "
    "libraries on top of Redis write for it besides. Celery's worker counts too, for tasks wait in it; of APScheduler, "
    "a library, there is nothing but the worker. PostgreSQL holds pages of its table and index in its shared buffers. "
    "timerd holds nothing of a task that is due in an hour: it lies on disk and is loaded 90 s before its bucket "
    "begins. What is counted for it are buffers of storing and the cache of its database, which more tasks do not "
    "enlarge; near due, a task takes what [memory](#memory-per-pending-task) says."
)
BULK_TITLE = "Bulk schedule, messages of 1,000 or what is best, due"
ROWS = {
    row.name: row
    for row in (
        Row("single", "Single schedule, 8 processes with one call in flight each", "tasks/s", single, Target(1.2)),
        *(
            Row(name, f"{BULK_TITLE} {span}", "tasks/s", bulk(SPANS[span]), Target(limit))
            for name, span, limit in (
                ("bulk-5m", "within 5 min", 1.2),
                ("bulk-1h", "within 1 h", 1.2),
                ("bulk-30d", "over 30 days", 0.7),
            )
        ),
        Row("fire", "Due at one instant, one worker process", "tasks/s", fire, Target(1.15), note=FIRE_NOTE),
        Row(
            "lateness",
            "Lateness at a steady rate, p99",
            "ms",
            lateness,
            Target(1.5, ratio=False),
            more_is_better=False,
            note=LATENESS_NOTE,
        ),
        Row(
            "cancel",
            "Cancel by id, 8 processes with one call in flight each",
            "tasks/s",
            cancel_singles,
            Target(1.2, against="redis-always"),
            cancels=True,
        ),
        Row(
            "cancel-many",
            "Cancel by id, in batches",
            "tasks/s",
            cancel_many,
            Target(200_000, ratio=False),
            cancels=True,
        ),
        Row(
            "memory",
            "Memory per task that is due in an hour",
            "B/task",
            memory,
            Target(260, ratio=False),
            more_is_better=False,
            note=MEMORY_NOTE,
        ),
    )
}
