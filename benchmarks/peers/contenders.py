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
from benchmarks.peers.installed import BULLMQ, HERE, LIBRARIES, ROOT, Installed
from benchmarks.peers.servers import Running
from benchmarks.peers.sweep import Ladder
from benchmarks.peers.versions import node_versions, python_versions, version_of
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
    for receiving `fetch`, and how many `consumers` or `threads` the one worker process has."""

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
    sweep: Mapping[str, Ladder] = field(default_factory=dict)
    cancels: bool = True
    # A library: what another process stores is not noticed, so one process schedules and receives.
    in_one_process: bool = False
    # The memory of whoever receives belongs to the peer: tasks wait in it.
    waits_in_worker: bool = False
    # It knows delays of whole seconds only, and is given tasks so many whole seconds before they are due.
    whole_seconds: bool = False

    def lacks(self, tools: Installed) -> str | None:
        """What is missing, for people."""
        if self.client.endswith(".js"):
            if tools.modules() is None:
                return BULLMQ
        elif self.modules and tools.python(*self.modules) is None:
            return f"{LIBRARIES}: {', '.join(self.modules)}"
        return self.program if self.program and tools.program(self.program) is None else None

    def command(self, tools: Installed) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """A client process: program, arguments, environment."""
        if self.client.endswith(".js"):
            return "node", (str(HERE / "clients" / self.client),), {"NODE_PATH": str(tools.modules())}
        python = tools.python(*self.modules) or sys.executable
        return python, ("-m", f"benchmarks.peers.clients.{self.client}"), {"PYTHONPATH": str(ROOT)}

    def versions(self, tools: Installed) -> dict[str, str]:
        """Of its server, and of the libraries that its client uses."""
        program = tools.program(self.program) if self.program else None
        server = {str(self.program): version_of(program)} if program else {}
        if self.client.endswith(".js"):
            return {**server, **node_versions(tools)}
        return {**server, **python_versions(tools, self.modules)} if self.modules else server


@asynccontextmanager
async def _timerd(tools: Installed, folder: Path) -> AsyncIterator[Running]:
    server = await Server.start(folder)
    try:
        yield Running(server.address, folder / "data", server.pid)
    finally:
        await server.stop()


def _redis(fsync: str) -> Open:
    return partial(servers.redis, fsync=fsync)


BATCH = Ladder(1_000, most=64_000, least=62, factor=4)
AT_ONCE = Ladder(1, most=16)
BATCHES = {
    "batch": BATCH,
    "writers": AT_ONCE,
    # First, since so much more fetched at once leaves no room for others who fetch.
    "consumers": AT_ONCE,
    "fetch": Ladder(500, most=8_000, least=31),
}
REDIS: dict[str, Any] = {
    "program": "redis-server",
    "modules": ("redis", "hiredis"),
    "client": "redis_zset",
    "sweep": BATCHES,
}
BEANSTALK: dict[str, Any] = {
    "program": "beanstalkd",
    "client": "beanstalk",
    "sweep": {**BATCHES, "fetch": Ladder(50, most=3_200, least=3)},
    "whole_seconds": True,
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
        sizes=Sizes(stores_per_s=4_000, fire=15_000),
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
        modules=("celery", "kombu", "redis", "hiredis"),
        client="celery_eta",
        sizes=Sizes(fire=3_000, rate_per_s=500, stores_per_s=800),
        # Batches there are none, and its worker fetches all that is for later, however few it is to fetch ahead.
        sweep={"writers": AT_ONCE, "threads": Ladder(8, most=64)},
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
        sizes=Sizes(fire=20_000, stores_per_s=8_000),
        # `fetch`: how many jobs a worker has in hand at once.
        sweep={
            "batch": Ladder(250, most=16_000, least=15, factor=4),
            "writers": AT_ONCE,
            "consumers": AT_ONCE,
            "fetch": Ladder(100, most=1_600, least=6),
        },
    ),
    Contender(
        "apscheduler",
        "APScheduler 3, SQLite",
        "yes: fsync",
        True,
        servers.library,
        modules=("apscheduler", "sqlalchemy"),
        client="apscheduler_sqlite",
        sizes=Sizes(fire=1_000, rate_per_s=100, stores_per_s=600),
        # There is one writer: jobs that another scheduler stores are not noticed by this one.
        sweep={"threads": Ladder(8, most=64)},
        in_one_process=True,
        waits_in_worker=True,
    ),
)
CONTENDERS = {one.name: one for one in (TIMERD, *PEERS)}
