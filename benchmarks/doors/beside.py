"""python -m benchmarks.doors.beside: one durable task a call, by timerd's two doors and by what people would use.

Each line is a fresh server that has synced a task to the disk before it answers: timerd with `synchronous=FULL`, Redis
with `appendfsync always`, PostgreSQL as it comes, beanstalkd with `-f 0`. The callers are programs in Go.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import machine
from benchmarks.doors.__main__ import DOORS, WAIT_S, built, flags, load_of
from benchmarks.doors.places import alone
from benchmarks.figures import BenchmarkFailed
from benchmarks.peers import servers
from benchmarks.peers.installed import Installed, default_cache
from benchmarks.processes import Child
from benchmarks.stopping import Interrupted, run

PROGRAMS = {"redis": "redis-server", "postgres": "postgres", "beanstalkd": "beanstalkd"}
OPENS: Mapping[str, Callable[[Installed, Path], AbstractAsyncContextManager[servers.Running]]] = {
    "redis": partial(servers.redis, fsync="always"),
    "postgres": servers.postgres,
    "beanstalkd": partial(servers.beanstalkd, sync_ms=0),
}
LOADS = ((8, 8), (64, 1), (512, 1))


class Line(NamedTuple):
    """What one of them did at one load."""

    who: str
    callers: int
    per_s: float
    p50_ms: float
    p99_ms: float


async def main(arguments: argparse.Namespace) -> list[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="beside-", dir=arguments.folder) as folder:
        await asyncio.to_thread(Path(folder).chmod, 0o755)
        programs = await built(Path(folder)), await built(Path(folder, "peers"), "peers")
        for load in arguments.loads:
            for who in arguments.only:
                place = Path(folder, f"{who}-{load[0]}")
                lines.append(await measured(place, who, load, programs, arguments))
                print(shown(lines[-1]), flush=True)
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)
    return lines


async def measured(
    folder: Path, who: str, load: tuple[int, int], programs: tuple[str, str], arguments: argparse.Namespace
) -> Line:
    async with callers(folder, who, load, programs, arguments) as child:
        await child.line(WAIT_S)
        found: dict[str, Any] = await child.ask("go on")
    if found["failed"]:
        raise BenchmarkFailed(f"{found['failed']} of {found['calls']} calls of {who} failed.")
    return Line(who, load[0], found["calls"] / found["seconds"], found["p50_ms"], found["p99_ms"])


@asynccontextmanager
async def callers(
    folder: Path, who: str, load: tuple[int, int], programs: tuple[str, str], arguments: argparse.Namespace
) -> AsyncIterator[Child]:
    """The program that calls, with its server."""
    async with AsyncExitStack() as stack:
        if who in DOORS:
            server = await stack.enter_async_context(alone(folder, who))
            child = await Child.start("callers", *flags(server.address, load, arguments), program=programs[0])
        else:
            target = (await stack.enter_async_context(peer(folder, who))).target
            how = ("-kind", who, "-target", target, "-in-flight", str(load[0]), "-seconds", str(arguments.seconds))
            child = await Child.start("callers", *how, program=programs[1])
        stack.push_async_callback(child.stop)
        yield child


@asynccontextmanager
async def peer(folder: Path, who: str) -> AsyncIterator[servers.Running]:
    tools = Installed(default_cache())
    if tools.program(PROGRAMS[who]) is None:
        raise BenchmarkFailed(f"{PROGRAMS[who]} is not here: python -m benchmarks.peers --fetch-only gets it.")
    await asyncio.to_thread(folder.mkdir, parents=True)
    await asyncio.to_thread(folder.chmod, 0o755)
    async with OPENS[who](tools, folder) as running:
        yield running


def shown(line: Line) -> str:
    return (
        f"{line.callers} in flight, {line.who}: {line.per_s:,.0f}/s, p50 {line.p50_ms:.2f} ms, p99 {line.p99_ms:.2f} ms"
    )


def table(lines: list[Line]) -> str:
    rows = ["| in flight | to | calls/s | p50 | p99 |", "| ---: | --- | ---: | ---: | ---: |"]
    rows += [f"| {n} | {who} | {per_s:,.0f} | {p50:.2f} ms | {p99:.2f} ms |" for who, n, per_s, p50, p99 in lines]
    return "\n".join(rows)


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors.beside", description=__doc__)
    everybody = (*DOORS, *PROGRAMS)
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=everybody)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--loads", type=lambda text: tuple(map(load_of, text.split(","))), default=LOADS)
    parser.add_argument("--folder", default=None, help="where the data go, for so long")
    given = parser.parse_args(argv)
    given.then = ""
    if unknown := [who for who in given.only if who not in everybody]:
        parser.error(f"{unknown[0]!r} is nobody here. There are {', '.join(everybody)}.")
    return given


if __name__ == "__main__":
    asked = parsed(sys.argv[1:])
    try:
        print(table(run(main(asked))))
    except (BenchmarkFailed, Interrupted) as failed:
        sys.exit(str(failed))
    facts = machine.facts(Path(asked.folder or tempfile.gettempdir()))
    print("\n" + "; ".join(f"{name}: {value}" for name, value in facts.items()))
