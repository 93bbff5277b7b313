"""Who is measured: how each is started, whether it is durable when it confirms, and what it is tried with."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers import servers
from benchmarks.peers.installed import HERE, ROOT, Installed, version_of
from benchmarks.peers.servers import Running
from benchmarks.processes import Server

Open = Callable[[Installed, Path], AbstractAsyncContextManager[Running]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is asked of a peer, so that a slow one gets an answer out in the time that there is."""

    fire: int = 100_000
    rate_per_s: int = 2_000
    # At least so many a second are stored in messages; it decides how far ahead the first is due.
    stores_per_s: int = 40_000
    callers: int = 8


@dataclass(frozen=True, slots=True)
class Contender:
    """`sweep` names what is tried in a small run before: for storing `batch` and how many `writers` send such at once,
    for receiving `fetch`."""

    name: str
    title: str
    # What a confirmed task survives, in a word or two.
    confirmed: str
    durable: bool
    open: Open
    program: str | None = None
    modules: tuple[str, ...] = ()
    client: str = ""
    sizes: Sizes = Sizes()
    sweep: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    cancels: bool = True
    # A library: what another process stores is not noticed, so one process schedules and receives.
    in_one_process: bool = False
    # The memory of whoever receives belongs to the peer: tasks wait in it.
    waits_in_worker: bool = False

    def lacks(self, tools: Installed) -> str | None:
        """What is missing, for people."""
        if self.client.endswith(".js"):
            if tools.modules() is None:
                return "node with BullMQ"
        elif self.modules and tools.python(*self.modules) is None:
            return f"Python with {', '.join(self.modules)}"
        return self.program if self.program and tools.program(self.program) is None else None

    def command(self, tools: Installed) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """A client process: program, arguments, environment."""
        if self.client.endswith(".js"):
            return "node", (str(HERE / "clients" / self.client),), {"NODE_PATH": str(tools.modules())}
        python = tools.python(*self.modules) or sys.executable
        return python, ("-m", f"benchmarks.peers.clients.{self.client}"), {"PYTHONPATH": str(ROOT)}

    def version(self, tools: Installed) -> str:
        program = tools.program(self.program) if self.program else None
        return version_of(program) if program else ""


@asynccontextmanager
async def _timerd(tools: Installed, folder: Path) -> AsyncIterator[Running]:
    server = await Server.start(folder)
    try:
        yield Running(server.address, folder / "data", server.pid)
    finally:
        await server.stop()


def _redis(fsync: str) -> Open:
    return partial(servers.redis, fsync=fsync)


BATCHES: dict[str, tuple[int, ...]] = {"batch": (1_000, 4_000), "writers": (1, 2, 4), "fetch": (500, 1_500)}
REDIS: dict[str, Any] = {
    "program": "redis-server",
    "modules": ("redis", "hiredis"),
    "client": "redis_zset",
    "sweep": BATCHES,
}
BEANSTALK: dict[str, Any] = {
    "program": "beanstalkd",
    "client": "beanstalk",
    "sweep": {"batch": (1_000,), "writers": (1, 4), "fetch": (50, 200)},
}
TIMERD = Contender("timerd", "timerd", "yes: fsync", True, _timerd)
PEERS = (
    Contender("redis-always", "Redis zset, AOF always", "yes: fsync", True, _redis("always"), **REDIS),
    Contender("redis-everysec", "Redis zset, AOF everysec", "no: up to 1 s", False, _redis("everysec"), **REDIS),
    Contender(
        "beanstalkd-sync",
        "beanstalkd -b -f 0",
        "yes: fsync",
        True,
        partial(servers.beanstalkd, sync_ms=0),
        sizes=Sizes(stores_per_s=3_000, fire=20_000),
        **BEANSTALK,
    ),
    Contender(
        "beanstalkd",
        "beanstalkd -b -f 50",
        "no: up to 50 ms",
        False,
        partial(servers.beanstalkd, sync_ms=50),
        **BEANSTALK,
    ),
    Contender(
        "postgres",
        "PostgreSQL SKIP LOCKED, COPY",
        "yes: fsync",
        True,
        servers.postgres,
        program="postgres",
        modules=("psycopg",),
        client="postgres",
        sweep=BATCHES,
    ),
    Contender(
        "celery",
        "Celery eta on Redis, AOF always",
        "yes: fsync",
        True,
        _redis("always"),
        program="redis-server",
        modules=("celery", "redis"),
        client="celery_eta",
        sizes=Sizes(fire=4_000, rate_per_s=500, stores_per_s=800),
        cancels=False,
        waits_in_worker=True,
    ),
    Contender(
        "bullmq",
        "BullMQ on Redis, AOF always",
        "yes: fsync",
        True,
        _redis("always"),
        program="redis-server",
        client="bullmq.js",
        sizes=Sizes(fire=50_000, stores_per_s=6_000),
        sweep={"batch": (250, 1_000)},
    ),
    Contender(
        "apscheduler",
        "APScheduler 3, SQLite",
        "yes: fsync",
        True,
        servers.library,
        modules=("apscheduler", "sqlalchemy"),
        client="apscheduler_sqlite",
        sizes=Sizes(fire=1_000, rate_per_s=100, stores_per_s=200),
        in_one_process=True,
        waits_in_worker=True,
    ),
)
CONTENDERS = {one.name: one for one in (TIMERD, *PEERS)}
