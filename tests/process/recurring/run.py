"""A backfill, a schedule with a fixed delay and a cycle whose members come and go, beside each other on one server that
is killed again and again. One worker writes down what it handles, and callers what they were told."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.process.children import Server
from tests.process.recurring.judging import (
    LATE_S,
    Cycles,
    Handled,
    MemberCall,
    Unanswered,
    apart,
    lost,
    once_each,
    turns,
)
from tests.process.waiting import PATIENCE_S, eventually
from timerd.client import BackfillState, Client, OutcomeUnknown, Overloaded, Unavailable
from timerd.worker import Delivery, OccurrenceReason, Worker

DELAY_S = 1.0
PERIOD_S, SLOTS = 5, 5
ALWAYS, GUESTS, HEAVY = 40, 6, 8
RATE_PER_S = 150
# How often it is looked how long the server waited for a processor, and of which share of the time it may.
LOOK_S, MOST_WAITED = 0.5, 0.2
MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Who was not answered asks again.
PASSING = (Unavailable, OutcomeUnknown, Overloaded)


@dataclass(frozen=True, slots=True)
class Settings:
    """`instants`: of the span that is backfilled."""

    kills: int
    instants: int
    seed: int = 1
    # Between two kills, at least and at most.
    between_s: tuple[float, float] = (0.5, 2.5)


@dataclass
class Logs:
    backfill: list[Handled] = field(default_factory=list)
    delay: list[Handled] = field(default_factory=list)
    turns: list[Handled] = field(default_factory=list)
    calls: list[MemberCall] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    away: list[tuple[float, float]] = field(default_factory=list)
    starved: list[tuple[float, float]] = field(default_factory=list)
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`excused`: turns that were lost for want of a server. `starved_s`: for how long it was
    kept waiting for a processor. `wrong`: sentences."""

    kills: int
    backfilled: int
    delayed: int
    turns: int
    cycles: int
    member_calls: int
    unanswered: int
    moved: int
    excused: int
    starved_s: int
    wrong: list[str]


async def run(settings: Settings, folder: Path, killed: Callable[[int], None]) -> Verdict:
    server, logs = Server(folder), Logs()
    worker, chance = Worker(server.address), random.Random(settings.seed)
    _handlers(worker, logs)
    server.start()
    working = asyncio.create_task(worker.run())
    try:
        async with Client(server.address, timeout=60) as client:
            play = _Play(settings, server, client, logs, chance)
            await play.begin()
            guests, watching = asyncio.create_task(play.guests()), asyncio.create_task(play.watch())
            for number in range(settings.kills):
                await asyncio.sleep(chance.uniform(*settings.between_s))
                await play.kill()
                killed(number + 1)
                if number == settings.kills // 2:
                    await play.rebalance()
            play.is_over.set()
            await guests
            await play.end()
            watching.cancel()
            return play.verdict()
    finally:
        await worker.stop()
        await working
        server.kill()


def _handlers(worker: Worker, logs: Logs) -> None:
    def note(log: list[Handled], what: str, delivery: Delivery, began_s: float) -> None:
        due_s = (delivery.fire_time - EPOCH) / timedelta(seconds=1)
        log.append(Handled(what, delivery.task_id, due_s, began_s, time.time()))

    @worker.on("days")
    async def backfilled(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        if delivery.occurrence.reason is OccurrenceReason.BACKFILL:
            note(logs.backfill, delivery.occurrence.instant.isoformat(), delivery, time.time())

    @worker.on("mailbox")
    async def polled(delivery: Delivery) -> None:
        began_s = time.time()
        await asyncio.sleep(0.2)
        note(logs.delay, "mailbox", delivery, began_s)

    @worker.on("members", concurrency=100)
    async def synced(delivery: Delivery) -> None:
        began_s = time.time()
        await asyncio.sleep(0.02)
        note(logs.turns, delivery.payload.decode(), delivery, began_s)


@dataclass
class _Play:
    settings: Settings
    server: Server
    client: Client
    logs: Logs
    chance: random.Random
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    start: datetime = EPOCH
    first: int = 0
    last: int = 0

    async def begin(self) -> None:
        end = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.start = end - self.settings.instants * MINUTE
        schedules, cycles = self.client.schedules, self.client.cycles
        await schedules.create("minutely", queue="days", cron="* * * * *")
        await schedules.backfill("minutely", start=self.start, end=end, rate=RATE_PER_S, backfill_id="past")
        await schedules.create("mailbox", queue="mailbox", fixed_delay=DELAY_S)
        await cycles.create("sync", every=PERIOD_S, slots=SLOTS, queue="members", origin=EPOCH)
        await cycles.put("sync", [f"always-{n}" for n in range(ALWAYS)])
        await cycles.put("sync", [f"heavy-{n}" for n in range(HEAVY)], weights=[10] * HEAVY)
        # The first whole cycle of which no slot had begun.
        self.first = int(time.time() // PERIOD_S) + 2

    async def kill(self) -> None:
        killed_s = time.time()
        self.server.kill()
        await asyncio.to_thread(self.server.start)
        self.logs.away.append((killed_s, time.time()))

    async def watch(self) -> None:
        """Until it is cancelled. On a machine that others use up no turn comes in time."""
        while True:
            pid, waited_s, from_s = self.server.pid, _waited_s(self.server.pid), time.time()
            await asyncio.sleep(LOOK_S)
            until_s = time.time()
            if pid == self.server.pid and _waited_s(pid) - waited_s > MOST_WAITED * (until_s - from_s):
                self.logs.starved.append((from_s, until_s))

    async def guests(self) -> None:
        """Members that come and go, each call until it is answered."""
        present: set[str] = set()
        while not self.is_over.is_set():
            await asyncio.sleep(self.chance.uniform(0.0, 0.3))
            key = f"guest-{self.chance.randrange(GUESTS)}"
            await self._come_or_go(key, is_put=key not in present)
            present ^= {key}

    async def _come_or_go(self, key: str, *, is_put: bool) -> None:
        asked_s, call = time.time(), self.client.cycles.put if is_put else self.client.cycles.remove
        while True:
            try:
                await call("sync", [key])
            except PASSING:
                self.logs.unanswered += [Unanswered(key, time.time())] if is_put else []
            else:
                self.logs.calls.append(MemberCall(key, is_put, asked_s, time.time()))
                return

    async def rebalance(self) -> None:
        rebalance = self.client.cycles.rebalance
        done = await _answered(lambda: rebalance("sync", max_moved=1, force=True, request_id="even"))
        self.logs.moved = done.moved

    async def end(self) -> None:
        """The backfill is through, another task of the fixed delay comes, and a whole cycle is over."""
        polled = len(self.logs.delay)

        async def is_done() -> bool:
            seen = await _answered(lambda: self.client.schedules.get_backfill("minutely", "past"))
            return bool(seen.state is BackfillState.DONE)

        async def all_came() -> bool:
            return len({each.what for each in self.logs.backfill}) >= self.settings.instants

        async def goes_on() -> bool:
            return len(self.logs.delay) >= polled + 2

        await eventually(is_done, "the end of the backfill", 60 + self.settings.instants / 50)
        await eventually(all_came, "all tasks of the backfill")
        await eventually(goes_on, "more tasks after the fixed delay", 2 * PATIENCE_S)
        # Cycles that are over, and as long again as what is late has its turn in.
        self.last = max(int((time.time() - LATE_S) // PERIOD_S), self.first + 1)
        await asyncio.sleep(max(0.0, self.last * PERIOD_S + LATE_S - time.time()))

    def verdict(self) -> Verdict:
        logs, instants = self.logs, self.settings.instants
        expected = [(self.start + n * MINUTE).isoformat() for n in range(instants)]
        always = frozenset([f"always-{n}" for n in range(ALWAYS)] + [f"heavy-{n}" for n in range(HEAVY)])
        cycles = Cycles(0.0, PERIOD_S, self.first, self.last, always, logs.away, logs.starved)
        wrong = [
            *once_each(logs.backfill, expected),
            *apart(logs.delay, DELAY_S),
            *turns(logs.turns, logs.calls, cycles, logs.unanswered),
        ]
        excused = sum(not each.was_served for each in lost(logs.turns, cycles))
        counts = (
            len(logs.backfill),
            len(logs.delay),
            len(logs.turns),
            self.last - self.first,
            len(logs.calls),
            len(logs.unanswered),
        )
        starved_s = round(sum(until_s - from_s for from_s, until_s in logs.starved))
        return Verdict(len(logs.away), *counts, logs.moved, excused, starved_s, wrong)


def _waited_s(pid: int) -> float:
    """How long the main thread of a process has waited for a processor so far; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


async def _answered(call: Callable[[], Any]) -> Any:  # noqa: ANN401 - of each call
    """Until it is: each is safe to repeat."""
    while True:
        try:
            return await call()
        except PASSING:
            await asyncio.sleep(0.1)
