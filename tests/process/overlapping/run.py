"""Schedules of every second whose task is often open still when the next instant comes, on one server that is killed
again and again. A worker writes down what it handles."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.process.children import Server
from tests.process.overlapping.judging import Attempt, alone, one_task_each
from timerd.client import Client, NewSchedule
from timerd.worker import Delivery, Worker

POLICIES = ("skip", "buffer_one", "cancel_other")
MESSAGE = 100
LOOK_S = 0.2
# A handler takes a moment, or so long that one or two instants come meanwhile.
SHORT_S, LONG_S, IS_LONG = 0.02, (0.8, 2.5), 0.3


@dataclass(frozen=True, slots=True)
class Settings:
    """`schedules`: of each policy; `occurrences`: that are handled before it ends."""

    schedules: int
    occurrences: int
    seed: int = 1
    # Between two kills, at least and at most.
    between_s: tuple[float, float] = (3.0, 9.0)


@dataclass
class Log:
    attempts: list[Attempt] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)
    long: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`occurrences`: those that a worker had, by policy; `again`: further attempts of them; `long`: attempts beside
    which an instant came."""

    kills: int
    occurrences: dict[str, int]
    again: int
    long: int
    wrong: list[str]


async def run(settings: Settings, folder: Path, handled: Callable[[int], None]) -> Verdict:
    server, log, chance = Server(folder), Log(), random.Random(settings.seed)
    worker = Worker(server.address)
    _handle(worker, log, chance)
    server.start()
    await _create(server.address, settings.schedules)
    working = asyncio.create_task(worker.run())
    kills = 0
    try:
        while len(log.tasks) < settings.occurrences:
            await _work(log, chance.uniform(*settings.between_s), handled)
            server.kill()
            await asyncio.to_thread(server.start)
            kills += 1
        return _verdict(log, kills)
    finally:
        await worker.stop()
        await working
        server.kill()


async def _create(address: str, count: int) -> None:
    made = [
        NewSchedule(f"{policy}-{n}", queue="alone", every=1, jitter=1, overlap=policy)
        for policy in POLICIES
        for n in range(count)
    ]
    async with Client(address, timeout=60) as client:
        for at in range(0, len(made), MESSAGE):
            await client.schedules.create_many(made[at : at + MESSAGE])


def _handle(worker: Worker, log: Log, chance: random.Random) -> None:
    @worker.on("alone", concurrency=2_000)
    async def note(delivery: Delivery) -> None:
        began_s, occurrence = time.time(), delivery.occurrence
        assert occurrence is not None
        is_long = chance.random() < IS_LONG
        log.long += is_long
        try:
            await asyncio.sleep(chance.uniform(*LONG_S) if is_long else SHORT_S)
        finally:
            # Also where it is cancelled for the next one.
            attempt = (occurrence.schedule_id, occurrence.instant.isoformat(), delivery.task_id)
            log.attempts.append(Attempt(*attempt, began_s, time.time()))
            log.tasks.add(delivery.task_id)


async def _work(log: Log, seconds: float, handled: Callable[[int], None]) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        await asyncio.sleep(LOOK_S)
        handled(len(log.tasks))


def _verdict(log: Log, kills: int) -> Verdict:
    attempts = list(log.attempts)
    policies = Counter({each.task_id: each.schedule.rpartition("-")[0] for each in attempts}.values())
    again = len(attempts) - len(log.tasks)
    return Verdict(kills, dict(policies), again, log.long, [*alone(attempts), *one_task_each(attempts)])
