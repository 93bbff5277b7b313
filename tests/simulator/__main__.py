"""Histories by seed against the correct core, and how often they passed each branch of the protocol:
`python -m tests.simulator --seeds 10000 --jobs 2`. `--variants` shows at which seed each broken one is caught first;
`--seed 123` replays one history as a trace. With `--cluster` several instances live in each history."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.simulator import branches, judge, variants
from tests.simulator.cluster import branches as cluster_branches
from tests.simulator.cluster import judge as cluster_judge
from tests.simulator.cluster import variants as cluster_variants
from tests.simulator.judge import Verdict

CI_SEEDS = 200
SHOWN = 10


class Judge(Protocol):
    def __call__(self, seed: int, variant: str = "correct", *, traced: bool = False, once: bool = False) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Form:
    """Of the simulator: one instance, or several."""

    judged: Judge
    branches: Sequence[str]
    variants: Sequence[str]


ONE = Form(judge.judged, branches.BRANCHES, tuple(variants.VARIANTS))
CLUSTER = Form(cluster_judge.judged, cluster_branches.BRANCHES, tuple(cluster_variants.VARIANTS))


def first_caught(form: Form, variant: str, seeds: Iterable[int]) -> Verdict | None:
    """The first seed at which the broken variant shows."""
    return next((verdict for seed in seeds if (verdict := form.judged(seed, variant, once=True)).wrong), None)


def verdicts(form: Form, seeds: range, jobs: int, variant: str, *, once: bool) -> Iterator[Verdict]:
    judged = partial(form.judged, variant=variant, once=once)
    if jobs == 1:
        yield from map(judged, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(judged, seeds, chunksize=5)


def replay(console: Console, form: Form, seed: int, variant: str, *, once: bool) -> int:
    verdict = form.judged(seed, variant, traced=True, once=once)
    for line in (*verdict.trace, *verdict.wrong):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(f"seed {seed}, {variant}: {len(verdict.wrong)} violations in {verdict.events} events")
    return 1 if verdict.wrong else 0


def survey(
    console: Console, form: Form, seeds: range, jobs: int, variant: str, most_minutes: float, *, once: bool
) -> int:
    begun = time.monotonic()
    seen = 0
    hits: Counter[str] = Counter()
    wrong: list[Verdict] = []
    for verdict in track(verdicts(form, seeds, jobs, variant, once=once), "histories", len(seeds), console=console):
        seen, hits = seen + 1, hits + verdict.hits
        if verdict.wrong:
            wrong.append(verdict)
        if time.monotonic() - begun > 60 * most_minutes:
            break
    console.print(branch_table(form, hits))
    for verdict in sorted(wrong, key=lambda each: each.seed)[:SHOWN]:
        console.print(f"{verdict.replay}\n  {verdict.wrong[0]}", markup=False, soft_wrap=True)
    missed = [name for name in form.branches if not hits[name]]
    minutes = (time.monotonic() - begun) / 60
    console.print(f"{seen} seeds in {minutes:.1f} minutes: {len(wrong)} with violations; never passed: {missed}")
    return 1 if wrong or missed else 0


def branch_table(form: Form, hits: Counter[str]) -> Table:
    table = Table("branch of the protocol", "times passed")
    for name in form.branches:
        table.add_row(name, f"{hits[name]:,}")
    return table


def variant_table(console: Console, form: Form, seeds: range) -> int:
    table = Table("broken rule", "first caught at seed", "by")
    missed = 0
    for name in track([name for name in form.variants if name != "correct"], "variants", console=console):
        caught = first_caught(form, name, seeds)
        missed += caught is None
        table.add_row(name, "never" if caught is None else str(caught.seed), caught.wrong[0] if caught else "")
    console.print(table)
    return 1 if missed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--cluster", action="store_true", help="several instances, and what befalls the ways between")
    parser.add_argument("--seeds", type=int, default=CI_SEEDS, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay one history, with its trace")
    parser.add_argument("--variant", default="correct", help="the rule that is broken")
    parser.add_argument("--variants", action="store_true", help="when is each broken variant caught")
    parser.add_argument("--once", action="store_true", help="without repeats at a distance and tries that are held up")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="as many of them as pass in this time")
    asked = parser.parse_args()
    console = Console()
    form = CLUSTER if asked.cluster else ONE
    if asked.variant not in form.variants:
        parser.error(f"there is no variant {asked.variant}: choose one of {', '.join(form.variants)}")
    seeds = range(asked.first, asked.first + asked.seeds)
    if asked.seed is not None:
        return replay(console, form, asked.seed, asked.variant, once=asked.once)
    if asked.variants:
        return variant_table(console, form, seeds)
    return survey(console, form, seeds, asked.jobs, asked.variant, asked.minutes, once=asked.once)


if __name__ == "__main__":
    sys.exit(main())
