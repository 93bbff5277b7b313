"""`python -m tests.chaos.series [--rounds 100] [--seed S] [--results FILE] [--docs]`: many rounds of every fault.

In runs of a dozen, each with processes and a seed of its own, so that one that gets stuck costs no more than itself;
one round in six on three nodes of Cassandra. With `--docs` what they showed is written into docs/ at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.ring import NODES

_RUN_ROUNDS = 12
_RING_EVERY = 6
_RING_FAULTS = "node,two-nodes,kill,node,two-nodes,roll"


def parsed() -> tuple[argparse.Namespace, list[str]]:
    """With what is passed on to each run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.series", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=100, help="of the first run; the next ones count on")
    parser.add_argument("--results", type=Path, default=Path("build/chaos.jsonl"))
    parser.add_argument("--docs", action="store_true")
    return parser.parse_known_args()


def runs(rounds: int) -> Iterator[list[str]]:
    """The options of each."""
    in_ring = rounds // _RING_EVERY
    for nodes, count, faults in ((1, rounds - in_ring, "all"), (NODES, in_ring, _RING_FAULTS)):
        for at in range(0, count, _RUN_ROUNDS):
            part = min(count - at, _RUN_ROUNDS)
            yield ["--nodes", str(nodes), "--faults", faults, "--rounds", str(part)]


def main() -> int:
    given, more = parsed()
    results = ["--results", str(given.results)]
    codes = []
    for seed, options in enumerate(runs(given.rounds), given.seed):
        command = [sys.executable, "-m", "tests.chaos", *options, "--seed", str(seed), *results, *more]
        print(" ".join(command[1:]), flush=True)
        codes.append(subprocess.run(command, check=False).returncode)
    if given.docs:
        subprocess.run([sys.executable, "-m", "tests.chaos.show", "--docs", str(given.results)], check=True)
    print(f"{codes.count(0)} of {len(codes)} runs broke no promise")
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
