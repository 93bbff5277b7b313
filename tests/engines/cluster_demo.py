"""`python -m tests.engines.cluster_demo`: the demo on Cassandra, Redis and three instances, one of which is killed with
kill -9 in the middle. The exit code is 0 only if everything was as promised."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.chaos.judging import judged
from tests.engines.finding import Found
from tests.engines.play import Instances
from tests.engines.starting import CANNOT_START, fresh_store, redis_options
from timerd.demo.processes import DemoFailed, Servers
from timerd.demo.records import Logs
from timerd.demo.run import DemoSettings, Report, run_demo
from timerd.demo.show import record_of, show
from timerd.demo.verdict import Verdict


def verdict_of(logs: Logs) -> Verdict:
    """Duplicates are within G5 where each had no confirmed ack before; a kill explains nothing else but what
    `tests/chaos/judging.py` lists."""
    return judged(logs, logs.kills, []).verdict


def played(settings: DemoSettings, found: Found, keyspace: str, *options: str, quiet: bool) -> Report:
    def on(folder: Path) -> Servers:
        return Instances(found, keyspace, folder, *options)

    return asyncio.run(run_demo(settings, quiet=quiet, on=on, judging=verdict_of))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.cluster_demo", description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=30, help="over which they fire; an instance is away for ten")
    parser.add_argument("--seed", type=int, default=1, help="which tasks are cancelled and moved, and when")
    parser.add_argument("--data", type=Path, help="keep the logs here; else they are removed")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser.parse_args()


def main() -> int:
    given = parsed()
    # Also `kill` ends all that was started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = DemoSettings(given.tasks, given.seconds, given.seed, given.data)
    try:
        with fresh_store("timerd_demo") as (found, keyspace), redis_options() as options:
            report = played(settings, found, keyspace, *options, quiet=given.json)
    except (DemoFailed, *CANNOT_START) as reason:
        print(reason, file=sys.stderr)
        return 1
    if given.json:
        print(json.dumps(record_of(report)))
    else:
        show(report)
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main())
