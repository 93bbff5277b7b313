"""`python -m tests.engines.cluster`: Cassandra, Redis and three instances of timerd on this machine, to be tried by
hand until Ctrl-C. What was found or started, and where each instance listens, is said; nothing is left behind."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.engines.instances import Instance, end_all, start_all
from tests.engines.starting import CANNOT_START, redis_options, store

KEYSPACE = "timerd_cluster"
FIRST_PORT = 7401


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--port", type=int, default=FIRST_PORT, help="of the first; the others have those behind it")
    given = parser.parse_args()
    try:
        with ExitStack() as started:
            return serve(started, given.instances, given.port)
    except CANNOT_START as reason:
        print(reason, file=sys.stderr)
        return 1


def serve(started: ExitStack, count: int, first_port: int) -> int:
    # Also `kill` ends all of it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = started.enter_context(store(KEYSPACE))
    second_way = started.enter_context(redis_options())
    folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="timerd-cluster-")))
    instances = [
        Instance(f"timerd-{n + 1}", found, KEYSPACE, folder, *second_way, port=first_port + n) for n in range(count)
    ]
    started.callback(end_all, instances)
    for instance, ready in zip(instances, start_all(instances), strict=True):
        print(ready, f"[pid {instance.pid}, log {folder / instance.name}.err]", flush=True)
    print(
        f"\nTry:  timerd schedule mails hello --in 5s --server {instances[0].address}\n"
        f"      timerd work mails --server {instances[-1].address}\n"
        f"      kill -9 {instances[0].pid}        (the others take over within the lease)\n"
        "Ctrl-C ends all of it.",
        flush=True,
    )
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("stopping ...", flush=True)
        for instance in instances:
            if instance.is_running():
                instance.signal(signal.SIGTERM)
        for instance in instances:
            instance.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
