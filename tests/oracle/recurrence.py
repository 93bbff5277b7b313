"""`python -m tests.oracle.recurrence [--expressions N] [--zones N] [--weeks N] [--years A B] [--jobs N] [--minutes M]`

Compares specs drawn at random with brute force over the minutes of UTC: each expression in each zone, three days before
and after each change of the clock and some random weeks of each year. Exit code 0 only if nothing differs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice
from random import Random

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.oracle.compare import Compared, compare
from tests.oracle.minutes import tz, windows
from tests.oracle.random_specs import drawn_rules
from timerd.adapters.zones import zone_names

# The edges: half an hour (Lord Howe), two hours (Troll), winter time as the exception (Dublin), fasting (Casablanca).
EDGES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin", "Antarctica/Troll",
    "Africa/Casablanca", "America/Santiago", "Asia/Gaza", "Pacific/Chatham", "America/St_Johns", "Africa/Cairo",
    "America/Nuuk", "Pacific/Apia", "Asia/Kathmandu", "UTC",
)  # fmt: skip
BATCH = 200


def chosen_zones(count: int, random: Random) -> list[str]:
    others = sorted(zone_names() - set(EDGES))
    return [*EDGES, *random.sample(others, max(0, count - len(EDGES)))][:count]


def batch(name: str, seed: str, count: int, years: tuple[int, int], weeks: int) -> Compared:
    """So many expressions in one zone."""
    over = windows(tz(name), years, Random(seed), weeks)
    random = Random(seed)
    found = Compared()
    for _ in range(count):
        found += compare(drawn_rules(random, years), name, over)
    return found


def tasks(given: argparse.Namespace) -> Iterator[tuple[str, str, int, tuple[int, int], int]]:
    """Each zone has expressions of its own, so that a run that is cut short has seen many."""
    years = (given.years[0], given.years[1])
    names = chosen_zones(given.zones, Random(given.seed))
    for first in range(0, given.expressions, BATCH):
        count = min(BATCH, given.expressions - first)
        yield from ((name, f"{given.seed} {first} {name}", count, years, given.weeks) for name in names)


def run(given: argparse.Namespace, console: Console) -> Compared:
    total, until = Compared(), time.monotonic() + given.minutes * 60
    columns = (
        TextColumn("compared"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bad]}"),
    )
    with Progress(*columns, console=console) as progress, ProcessPoolExecutor(given.jobs) as pool:
        bar = progress.add_task("", total=given.expressions * given.zones, bad="no difference")
        left = tasks(given)
        open_ = {pool.submit(batch, *each) for each in islice(left, 2 * given.jobs)}
        while open_:
            done, open_ = wait(open_, return_when=FIRST_COMPLETED)
            for each in done:
                total += each.result()
            if time.monotonic() < until:
                open_ |= {pool.submit(batch, *each) for each in islice(left, len(done))}
            found = f"{len(total.differences)} differences" if total.differences else "no difference"
            progress.update(bar, completed=total.expressions, bad=found)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.recurrence", description=__doc__)
    parser.add_argument("--expressions", type=int, default=10_000)
    parser.add_argument("--zones", type=int, default=50)
    parser.add_argument("--years", type=int, nargs=2, default=[2024, 2030], help="the first and the last one")
    parser.add_argument("--weeks", type=int, default=4, help="random ones of each year")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    console = Console()
    total = run(given, console)
    for each in total.differences[:20]:
        console.print(each, markup=False)
    console.print(
        f"{total.expressions:,} expressions in zones, {total.refused:,} of them refused, over {total.windows:,} "
        f"windows with {total.instants:,} instants: {len(total.differences)} differences"
    )
    return int(bool(total.differences))


if __name__ == "__main__":
    sys.exit(main())
