"""`python -m tests.mutants [NAME...] [--share N] [--seed TEXT] [--list] [--json] [--jobs N]`: exit code 0 only if every
mutant was caught.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import sha256
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Bench, Trial, Verdict

NAME = Column("mutant", min_width=max(len(mutant.name) for mutant in MUTANTS))
COLOURS = {Verdict.CAUGHT: "green", Verdict.SURVIVED: "red", Verdict.INVALID: "yellow"}


def chosen(names: Sequence[str], parser: argparse.ArgumentParser) -> list[Mutant]:
    """By name or by guarantee; all where none is named."""
    known = {m.name for m in MUTANTS} | {m.guarantee for m in MUTANTS}
    if unknown := [name for name in names if name not in known]:
        parser.error(f"There is no mutant {unknown[0]!r}: name one of --list, or a guarantee such as G4.")
    return [m for m in MUTANTS if not names or m.name in names or m.guarantee in names]


def drawn(mutants: Sequence[Mutant], share: int, seed: str) -> list[Mutant]:
    """One of so many, others for another seed: those whose digests with it come first, in the order of the table."""
    ranks = {mutant.name: sha256(f"{seed} {mutant.name}".encode()).digest() for mutant in mutants}
    names = set(sorted(ranks, key=lambda name: ranks[name])[: ceil(len(ranks) / share)])
    return [mutant for mutant in mutants if mutant.name in names]


def listing(mutants: Sequence[Mutant]) -> Table:
    table = Table("guarantee", NAME, "what is wrong then", "in", box=None, pad_edge=False)
    for mutant in mutants:
        table.add_row(mutant.guarantee, mutant.name, escape(mutant.breaks), mutant.file)
    return table


def outcome(trials: Sequence[Trial]) -> Table:
    table = Table("guarantee", NAME, "", "what is wrong then", "its tests said", box=None, pad_edge=False)
    for trial in trials:
        mutant, colour = trial.mutant, COLOURS[trial.verdict]
        verdict = f"[{colour}]{trial.verdict.value}[/{colour}]"
        table.add_row(mutant.guarantee, mutant.name, verdict, escape(mutant.breaks), escape(trial.reason))
    return table


def facts(trial: Trial) -> dict[str, object]:
    mutant = trial.mutant
    return {
        "name": mutant.name, "guarantee": mutant.guarantee, "file": mutant.file, "breaks": mutant.breaks,
        "tests": mutant.tests, "verdict": trial.verdict.value, "reason": trial.reason,
    }  # fmt: skip


def run(mutants: Sequence[Mutant], bench: Bench, console: Console) -> list[Trial]:
    """In the order of the table. Empty where the tests fail on the code as it is: then their failing shows nothing."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    trials: dict[str, Trial] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        first = progress.add_task("the code as it is", total=None)
        wrong = bench.wrong_already(tests)
        progress.remove_task(first)
        bar = progress.add_task("mutants", total=len(mutants))
        for trial in bench.judged(mutants) if not wrong else ():
            trials[trial.mutant.name] = trial
            progress.advance(bar)
    for sentence in wrong:
        console.print(f"without any mutant: {sentence}", markup=False)
    return [trials[mutant.name] for mutant in mutants if mutant.name in trials]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a mutant or a guarantee; all without any")
    parser.add_argument("--share", type=int, default=1, help="draw one of so many of them (default: 1, all)")
    parser.add_argument("--seed", default="", help="what they are drawn by; the same ones for the same text")
    parser.add_argument("--list", action="store_true", help="show the mutants, run nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="how many at a time")
    given = parser.parse_args()
    if given.jobs < 1:
        parser.error(f"--jobs is {given.jobs}; it must be 1 or more.")
    if given.share < 1:
        parser.error(f"--share is {given.share}; it must be 1 or more, where 1 takes all of them.")
    mutants = drawn(chosen(given.names, parser), given.share, given.seed)
    console = Console(stderr=given.json)
    if given.list:
        console.print(listing(mutants))
        return 0
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="timerd-mutants-", ignore_cleanup_errors=True) as folder:
        trials = run(mutants, Bench(Path(folder), given.jobs), console)
    caught = sum(trial.verdict is Verdict.CAUGHT for trial in trials)
    if given.json:
        print(json.dumps([facts(trial) for trial in trials], indent=2))
    else:
        console.print(outcome(trials))
    console.print(f"{caught} of {len(mutants)} mutants were caught, in {time.monotonic() - begun_s:.0f} s")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
