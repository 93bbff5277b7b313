"""kill -9 of relays, server and database under load, and the verdict: what the database wants is what the server has.

Two relays work beside each other. Each kill is of one process, by its pid, which is started again at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.outbox.load import AHEAD_MS, Writer
from tests.outbox.mysql_server import MysqlServer
from tests.outbox.postgres_server import PostgresServer
from tests.outbox.shops import QUEUE, MysqlShop, PostgresShop, Shop, made, wanted
from tests.process.children import Child, Server
from timerd.client import Client
from timerd.outbox.opening import open_outbox
from timerd.outbox.ports import DatabaseAway, OutboxFacts
from timerd.sdk.values import datetime_of_ms, now_ms

VICTIMS = ("relay 0", "server", "relay 1", "database")
WRITERS = 4
# Without a row that is taken.
DRAIN_S = 240
LEASE = "2s"


@dataclass
class Report:
    """`lost`, `invented`, `twice`: payloads and instants; `refused`: sentences."""

    counts: Counter[str]
    tasks: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    lost: list[tuple[str, int]] = field(default_factory=list)
    invented: list[tuple[str, int]] = field(default_factory=list)
    twice: list[tuple[str, int]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return bool(self.tasks) and not (self.lost or self.invented or self.twice or self.refused)


def relay(folder: Path, name: str, database: str, server: str) -> Child:
    arguments = ["-m", "timerd.cli", "outbox", "run", "--database", database, "--server", server, "--lease", LEASE]
    return Child(arguments, folder / f"{name}.err")


class Play:
    """The processes, and who is killed."""

    def __init__(self, database: PostgresServer | MysqlServer, folder: Path, pause_s: float) -> None:
        self._database = database
        self._kind: type[Shop] = MysqlShop if isinstance(database, MysqlServer) else PostgresShop
        self._url = database.url("shop")
        self._server = Server(folder)
        self._relays = {f"relay {n}": relay(folder, f"relay{n}", self._url, self._server.address) for n in range(2)}
        self._pause_s = pause_s

    async def run(self, kills: int, seed: int, say: Callable[[str], None]) -> Report:
        await self._make()
        start_ms, stopped = now_ms(), asyncio.Event()
        writers = [Writer(self._kind, self._url, f"w{n}", seed + n, start_ms, self._pause_s) for n in range(WRITERS)]
        writing = [asyncio.create_task(each.run(stopped)) for each in writers]
        try:
            killed = await self._kill(kills, Random(seed), say)
            stopped.set()
            await asyncio.gather(*writing)
            await self._drained()
            report = Report(sum((each.counts for each in writers), Counter()), kills=killed)
            await self._judge(report, start_ms)
            return report
        finally:
            stopped.set()
            for child in (*self._relays.values(), self._server):
                child.kill()

    async def _make(self) -> None:
        await made(self._kind, self._url)
        for child in (self._server, *self._relays.values()):
            await asyncio.to_thread(child.start)

    async def _kill(self, kills: int, rng: Random, say: Callable[[str], None]) -> Counter[str]:
        killed: Counter[str] = Counter()
        for number in range(kills):
            await asyncio.sleep(rng.uniform(0.3, 1.5))
            victim = VICTIMS[number % len(VICTIMS)]
            say(f"kill {number + 1} of {kills}: {victim}")
            await asyncio.to_thread(self._kill_one, victim)
            killed[victim] += 1
        return killed

    def _kill_one(self, victim: str) -> None:
        if victim == "database":
            self._database.kill()
            self._database.start_again()
            return
        child = self._server if victim == "server" else self._relays[victim]
        child.kill()
        child.start()

    async def _drained(self) -> None:
        end_s, least = time.monotonic() + DRAIN_S, float("inf")
        store, facts = open_outbox(self._url), None
        while facts is None or facts.rows or facts.sealed:
            assert time.monotonic() < end_s, f"the outbox is not drained: {facts}; {self._errors()}"
            await asyncio.sleep(0.1)
            facts = await _facts(store.facts) or facts
            if facts is not None and facts.rows < least:
                end_s, least = time.monotonic() + DRAIN_S, facts.rows
        await store.close()

    def _errors(self) -> str:
        return "\n".join(f"{name}: {child.errors()[-1500:]}" for name, child in self._relays.items())

    async def _judge(self, report: Report, start_ms: int) -> None:
        want, have = await wanted(self._kind, self._url), Counter[tuple[str, int]]()
        start, end = (datetime_of_ms(start_ms + AHEAD_MS + each_ms) for each_ms in (0, 3_600_000))
        async with Client(self._server.address) as client:
            async for task in client.list(queue=QUEUE, start=start, end=end, page_size=1000, include_payload=True):
                have[task.payload.decode(), task.fire_at_ms] += 1
            report.tasks = have.total()
            # Nothing of it lies elsewhere in time.
            assert int(await client.count(queue=QUEUE, start=datetime_of_ms(0), end=end)) == report.tasks
        report.lost, report.invented = sorted((want - have).elements()), sorted(have.keys() - want.keys())
        report.twice = [each for each, count in have.items() if count > 1]
        store = open_outbox(self._url)
        report.refused = [each.refused.problem for each in await store.refused(100)]
        await store.close()


async def _facts(ask: Callable[[], object]) -> OutboxFacts | None:
    try:
        return await ask()  # type: ignore[misc, no-any-return]
    except DatabaseAway:
        return None
