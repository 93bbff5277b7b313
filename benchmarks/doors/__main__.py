"""python -m benchmarks.doors: unary calls through each front door, in turns, from callers in Go on the same machine.

The callers are a program in Go, so that the client costs little of the two cores. Each line is a fresh server with
`synchronous=FULL`, or the first of three instances on Cassandra; its processor time is that of the whole process, over
the calls that were answered.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.duration_pb2 import Duration

from benchmarks import machine
from benchmarks.bench import PAYLOAD_BYTES, now_ms
from benchmarks.doors.places import Place, alone, in_cluster
from benchmarks.figures import BenchmarkFailed
from benchmarks.processes import Child, Server
from benchmarks.stopping import Interrupted, run
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import work_service_pb2 as work

HERE = Path(__file__).parent
DOORS = ("grpcio", "native")
# (callers, connections that they share)
LOADS = ((1, 1), (8, 1), (64, 1), (512, 1), (8, 8))
HOUR_S = 3_600
WAIT_S = 120.0
QUEUE = "q"
# Taken by one Receive.
AT_ONCE = 100
WAIT = Duration(nanos=100_000_000)
IDLE_S = 20.0
SCHEDULE = wire.ScheduleRequest(template=task_pb2.TaskTemplate(queue=QUEUE), payload=bytes(PAYLOAD_BYTES))


class Line(NamedTuple):
    """What one phase of one run was like."""

    method: str
    load: tuple[int, int]
    door: str
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


async def main(arguments: argparse.Namespace, place: Place = alone) -> list[Line]:
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="doors-", dir=arguments.folder) as folder:
        load = arguments.load or await built(Path(folder))
        for number in range(arguments.runs):
            for callers in arguments.loads:
                # Who is first has the colder machine: it changes.
                for door in arguments.doors if number % 2 == 0 else arguments.doors[::-1]:
                    here = Path(folder, f"{number}-{callers[0]}-{callers[1]}-{door}")
                    async with place(here, door) as server:
                        found = await measured(server, load, door, callers, arguments)
                    lines += found
                    for line in found:
                        print(shown(line), flush=True)
                    await asyncio.to_thread(shutil.rmtree, here)
    return lines


async def built(folder: Path, program: str = ".") -> str:
    """`program`: its folder below this one."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise BenchmarkFailed("The callers are a program in Go: install Go 1.24 or newer, or give --load PROGRAM.")
    process = await asyncio.create_subprocess_exec(go, "build", "-o", str(folder / "load"), ".", cwd=HERE / program)
    if await process.wait():
        raise BenchmarkFailed("The callers in Go were not built: see what go says above.")
    return str(folder / "load")


async def measured(
    server: Server, load: str, door: str, callers: tuple[int, int], arguments: argparse.Namespace
) -> list[Line]:
    child = await Child.start("callers", *flags(server.address, callers, arguments), program=load)
    try:
        await child.line(WAIT_S)
        return [await phase(child, server, door, callers) for _ in range(2 if arguments.then else 1)]
    finally:
        await child.stop()


class Idle(NamedTuple):
    """What a server with that many open connections takes, and nothing is asked of it; without them `before`."""

    door: str
    connections: int
    before_bytes: int
    after_bytes: int
    cpu_ms_s: float


async def idle(server: Server, load: str, door: str, arguments: argparse.Namespace) -> Idle:
    """Each connection has had one call."""
    before_bytes = server.pss_bytes()
    child = await Child.start("callers", *flags(server.address, (arguments.idle,) * 2, arguments), program=load)
    try:
        await child.line(WAIT_S)
        cpu_s = server.cpu_s()
        await asyncio.sleep(IDLE_S)
        cpu_ms_s = (server.cpu_s() - cpu_s) / IDLE_S * 1e3
        return Idle(door, arguments.idle, before_bytes, server.pss_bytes(), cpu_ms_s)
    finally:
        await child.stop()


async def idle_at_each(arguments: argparse.Namespace, place: Place = alone) -> list[Idle]:
    found: list[Idle] = []
    with tempfile.TemporaryDirectory(prefix="doors-", dir=arguments.folder) as folder:
        load = arguments.load or await built(Path(folder))
        for door in arguments.doors:
            async with place(Path(folder, door), door) as server:
                found.append(await idle(server, load, door, arguments))
    return found


def said(found: Idle) -> str:
    mib = (found.after_bytes - found.before_bytes) / (1 << 20)
    each = (found.after_bytes - found.before_bytes) / found.connections / 1024
    return (
        f"{found.connections:,} connections, {found.door}: {mib:.0f} MiB, {each:.1f} KiB each, beside "
        f"{found.before_bytes / (1 << 20):.0f} MiB without them; {found.cpu_ms_s:.1f} ms of processor time a second"
    )


def flags(address: str, callers: tuple[int, int], arguments: argparse.Namespace) -> Iterable[str]:
    yield from ("-target", address, "-in-flight", str(callers[0]), "-connections", str(callers[1]))
    yield from ("-seconds", str(arguments.seconds), "-schedule", SCHEDULE.SerializeToString().hex())
    # What is to be received is due when it comes.
    ahead_s = -HOUR_S if arguments.then == "Receive" else HOUR_S
    yield from ("-from", str(now_ms() // 1_000 + ahead_s), "-span", str(HOUR_S // 2))
    if arguments.then:
        yield from ("-then", arguments.then, "-then-message", second_message(arguments.then).hex())


def second_message(method: str) -> bytes:
    if method == "Receive":
        return work.ReceiveRequest(queue=QUEUE, max_tasks=AT_ONCE, wait=WAIT).SerializeToString()
    if method != "Reschedule":
        return b""
    moved = wire.RescheduleRequest()
    moved.fire_time.FromSeconds(now_ms() // 1_000 + 3 * HOUR_S)
    return moved.SerializeToString()


async def phase(child: Child, server: Server, door: str, callers: tuple[int, int]) -> Line:
    cpu_s = server.cpu_s()
    found: dict[str, Any] = await child.ask("go on")
    cpu_s = server.cpu_s() - cpu_s
    if found["failed"] or not found["calls"]:
        raise BenchmarkFailed(f"{found['failed']} of {found['calls']} calls failed: {found.get('last_word', '')}")
    # Where tasks are received it is these that count.
    count = found["tasks"] or found["calls"]
    return Line(
        found["method"], callers, door, count / found["seconds"], found["p50_ms"], found["p99_ms"], cpu_s / count * 1e6
    )


def shown(line: Line) -> str:
    load = f"{line.load[0]} callers, {line.load[1]} connections"
    return (
        f"{line.method}, {load}, {line.door}: {line.per_s:,.0f}/s, p50 {line.p50_ms:.2f} ms, p99 {line.p99_ms:.2f} ms, "
        f"{line.cpu_us:.0f} us of the server a call"
    )


def table(lines: Sequence[Line]) -> str:
    """Medians, and the range of the rate."""
    groups: dict[tuple[str, tuple[int, int], str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[line.method, line.load, line.door].append(line)
    rows = ["| call | callers | connections | door | calls/s | p50 | p99 | server a call |", "| --- " * 8 + "|"]
    for (method, (callers, connections), door), found in groups.items():
        rates = [line.per_s for line in found]
        p50, p99, cpu = (
            statistics.median(part)
            for part in zip(*((line.p50_ms, line.p99_ms, line.cpu_us) for line in found), strict=True)
        )
        rows.append(
            f"| {method} | {callers} | {connections} | {door} | {statistics.median(rates):,.0f} ({min(rates):,.0f} to "
            f"{max(rates):,.0f}) | {p50:.2f} ms | {p99:.2f} ms | {cpu:.0f} us |"
        )
    return "\n".join(rows)


def load_of(text: str) -> tuple[int, int]:
    callers, _, connections = text.partition("x")
    return int(callers), int(connections or 1)


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--doors", type=lambda text: tuple(text.split(",")), default=DOORS)
    parser.add_argument("--loads", type=lambda text: tuple(map(load_of, text.split(","))), default=LOADS)
    parser.add_argument("--then", choices=("Cancel", "Reschedule", "Receive"), default="", help="a second phase")
    parser.add_argument("--cassandra", action="store_true", help="three instances on a node, and calls to one of them")
    parser.add_argument("--idle", type=int, default=0, help="so many open connections that do nothing, and no calls")
    parser.add_argument("--load", default="", help="the callers, built before: go build in benchmarks/doors")
    parser.add_argument("--folder", default=None, help="where the data go, for so long")
    return parser.parse_args(argv)


def told(arguments: argparse.Namespace, place: Place) -> str:
    if arguments.idle:
        return "\n".join(map(said, run(idle_at_each(arguments, place))))
    return table(run(main(arguments, place)))


def told_of_a_cluster(arguments: argparse.Namespace) -> str:
    # Only who asks for them needs the driver and a node.
    from benchmarks.cluster.stage import Stage
    from tests.engines.finding import cassandra

    with cassandra(quick_start=False) as found:
        return told(arguments, in_cluster(Stage(found)))


if __name__ == "__main__":
    asked = parsed(sys.argv[1:])
    try:
        print(told_of_a_cluster(asked) if asked.cassandra else told(asked, alone))
    except (BenchmarkFailed, Interrupted) as failed:
        sys.exit(str(failed))
    facts = machine.facts(Path(asked.folder or tempfile.gettempdir()))
    print("\n" + "; ".join(f"{name}: {value}" for name, value in facts.items()))
