"""`python -m tests.chaos --rounds N [--faults kill,pause,...] [--tasks M] [--seed S] [--nodes 3]`.

Exit code 0 only if every promise held and every round that was wanted counts.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.chaos.all_faults import ALL_FAULTS, possible
from tests.chaos.ring import NODES, ring
from tests.chaos.run import Report, Run
from tests.chaos.stage import Setting, Stage
from tests.engines.cassandra_node import DATACENTER, CassandraNode, NodeFailed, answers
from tests.engines.finding import Found
from tests.engines.instances import options_of
from tests.engines.redis_server import RedisServer, is_there
from tests.process.children import run_cli
from tests.process.clockstep import ClockStep

_EXAMPLES = 10
_RESULTS = Path("build/chaos.jsonl")
# What a machine with fewer processors does in the same time.
_TASKS = 20_000 if (os.cpu_count() or 1) >= 8 else 2_000
_NEXT_BUCKET_PERCENT = 3
_KEYSPACE = "timerd_chaos"
# Three nodes agree on one table after the other.
_SCHEMA_S = 300.0


def faults_of(text: str) -> tuple[str, ...]:
    names = tuple(ALL_FAULTS) if text == "all" else tuple(text.split(","))
    unknown = [name for name in names if name not in ALL_FAULTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no fault: allowed are all, {', '.join(ALL_FAULTS)}.")
    return names


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="rounds that must count")
    parser.add_argument("--tasks", type=int, default=_TASKS, help=f"tasks to schedule in a round, about; here {_TASKS}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=faults_of, default="all", help=f"in turn, of: all, {', '.join(ALL_FAULTS)}")
    parser.add_argument(
        "--nodes", type=int, choices=(1, NODES), default=1, help="of Cassandra; three keep each row thrice"
    )
    parser.add_argument("--ttl-ms", type=int, default=3_000, help="how long an instance is believed to live")
    parser.add_argument("--keep", type=Path, help="folder for logs, kept afterwards; must not exist")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="file that rounds and verdict are appended to")
    parser.add_argument("--commit", default="", help="of the code, where this is not a work tree of git")
    parser.add_argument("--address", default="127.0.0.7", help="loopback address of the node that is started")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"--rounds is {given.rounds}; it must be 1 or more.")
    return given


@contextmanager
def a_node(address: str) -> Iterator[tuple[CassandraNode, ...]]:
    """One of our own, since it is frozen."""
    node = CassandraNode(address, quick_start=False)
    if answers(node.address, node.port):
        raise NodeFailed(f"At {node.address}:{node.port} a node runs already: name another --address.")
    try:
        node.start()
        yield (node,)
    finally:
        node.stop()


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


class Played(Protocol):
    """A round."""

    @property
    def record(self) -> dict[str, Any]: ...


class Results:
    """Lines of JSON, appended. `load`: what the run is of, beside its seed."""

    def __init__(self, given: argparse.Namespace, **load: int) -> None:
        given.results.parent.mkdir(parents=True, exist_ok=True)
        self._path: Path = given.results
        self._always = {"commit": given.commit or commit(), "seed": given.seed, **load, "ttl_ms": given.ttl_ms}
        self._count = 0

    def round(self, each: Played) -> None:
        self._count += 1
        print(f"{self._count:3d} {time.strftime('%H:%M:%S')} {each}", file=sys.stderr, flush=True)
        self.add({"round": self._count, **each.record})

    def add(self, record: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self._always, **record}) + "\n")


def record_of(report: Report) -> dict[str, Any]:
    verdict = report.judgement.verdict
    return {
        "holds": report.holds,
        "stuck": report.stuck,
        "seconds": round(report.seconds, 1),
        "rounds": len(report.rounds),
        "counted": report.counted,
        "least_unacknowledged": min((each.unacknowledged for each in report.rounds if each.counts), default=0),
        "least_unanswered": min((each.unanswered for each in report.rounds if each.counts), default=0),
        "acknowledged": report.acknowledged,
        "arrived": verdict.fired,
        "acks_confirmed": verdict.acked,
        "cancelled": verdict.cancelled,
        "moved": verdict.moved,
        "duplicates": verdict.duplicates,
        "duplicates_explained": verdict.duplicates_explained,
        "beyond_the_formula": sum(not each.is_within for each in report.rounds),
        "false_answers": sum(len(each.false_answers) for each in report.rounds),
        "unprovoked_lapses": report.unprovoked,
        "stale": len(report.judgement.stale),
        "most_stale_in_a_round": report.most_stale,
        "written_again": report.judgement.written_again,
        "crossed": report.judgement.crossed,
        "delivered_then_moved": report.judgement.then_moved,
        "read_late": report.judgement.read_late,
        "given_up": report.judgement.given_up,
        "given_away": report.judgement.given_away,
        **{name.replace(" ", "_"): len(cases) for name, cases in verdict.violations.items()},
        "violations": [case for cases in verdict.violations.values() for case in cases[:_EXAMPLES]],
        "evidence": list(report.evidence),
    }


def played(given: argparse.Namespace, folder: Path, results: Results) -> Report:
    with ExitStack() as started:
        setting = set_up(started, given, folder, nodes=given.nodes, next_bucket_percent=_NEXT_BUCKET_PERCENT)
        stage = Stage(setting)
        started.enter_context(stage.running())
        return Run(stage, possible(given.faults, setting), given.tasks, results.round).play(given.rounds)


def set_up(
    started: ExitStack, given: argparse.Namespace, folder: Path, *, nodes: int = 1, next_bucket_percent: int = 0
) -> Setting:
    """Cassandra with its tables, Redis, and a clock if one is to be stepped."""
    ours = started.enter_context(a_node(given.address) if nodes == 1 else ring())
    found = Found(",".join(node.address for node in ours), ours[0].port, DATACENTER, "nodes of our own")
    options = (*options_of(found, _KEYSPACE), "--replication", str(nodes))
    made = run_cli("schema", "apply", *options, patience_s=_SCHEMA_S)
    if made.returncode:
        raise RuntimeError(made.stderr)
    return Setting(
        folder,
        found,
        _KEYSPACE,
        given.seed,
        nodes=ours,
        redis=started.enter_context(a_redis()) if is_there() else None,
        clock=ClockStep(folder) if "clock" in given.faults else None,
        ttl_ms=given.ttl_ms,
        next_bucket_percent=next_bucket_percent,
    )


@contextmanager
def a_redis() -> Iterator[RedisServer]:
    server = RedisServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


def main() -> int:
    given = parsed()
    # Also `kill` ends all that was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results = Results(given, tasks=given.tasks, nodes=given.nodes)
    with tempfile.TemporaryDirectory(prefix="timerd-chaos-", ignore_cleanup_errors=True) as temporary:
        folder = given.keep or Path(temporary)
        if given.keep:
            folder.mkdir(parents=True)
        report = played(given, folder, results)
    results.add(record_of(report))
    for name, value in record_of(report).items():
        print(f"{name:22} {value}")
    return 0 if report.holds and report.counted >= given.rounds else 1


if __name__ == "__main__":
    sys.exit(main())
