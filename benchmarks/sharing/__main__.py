"""How ten slots are shared: the wait of everybody else beside a noisy customer and beside a target that hangs.

    python -m benchmarks.sharing [--fetch] [--case noisy] [--of timerd,BullMQ] [--plots docs/plots] [--write-docs]

Real servers and clients, one after the other in one run. Each job waits in its handler, so the waits say how slots are
given out, and next to nothing of how fast the machine is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.document import put
from benchmarks.figures import BenchmarkFailed
from benchmarks.machine import facts, load_average
from benchmarks.peers.__main__ import DOCUMENT
from benchmarks.peers.installed import Installed, default_cache
from benchmarks.processes import Child
from benchmarks.sharing import page
from benchmarks.sharing.cases import CASES, SLOTS, Case
from benchmarks.sharing.contenders import CONTENDERS, Contender, fetch
from benchmarks.sharing.waits import Waits

# To store all jobs and to start the workers.
LEAD_S = 15.0


@dataclass(frozen=True, slots=True)
class Run:
    """What one contender did with one case."""

    case: Case
    contender: Contender
    waits: Waits


async def played(case: Case, contender: Contender, tools: Installed) -> Waits:
    """Raises BenchmarkFailed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        async with contender.open(tools, folder) as running:
            program, arguments, env = contender.command(tools)
            log = folder / "client.log"
            child = await Child.start(f"client of {contender.name}", *arguments, log=log, program=program, env=env)
            try:
                found = await child.ask(
                    "play",
                    target=running.target,
                    jobs=[(job.customer, job.due_s, job.takes_s) for job in case.jobs],
                    slots=SLOTS,
                    begin_s=time.time() + LEAD_S,
                    seconds=case.seconds,
                    awaited=case.others,
                )
            except BenchmarkFailed as failed:
                raise BenchmarkFailed(f"{failed} Its log ends with: {log.read_text()[-500:]}") from None
            finally:
                await child.kill()
    return Waits.of(case, dict(found["started"]))


async def measured(given: argparse.Namespace, tools: Installed, console: Console) -> list[Run]:
    chosen = [each for each in CONTENDERS if not given.of or each.name in given.of]
    found = []
    for case in (CASES[name]() for name in given.case or CASES):
        for contender in chosen:
            if lacking := contender.lacks(tools):
                console.print(f"[yellow]left out:[/] {contender.name}: {lacking}", highlight=False)
                continue
            waits = await played(case, contender, tools)
            found.append(Run(case, contender, waits))
            record = {"case": case.name, "of": contender.name, "shares": contender.shares, **waits.figures}
            print(json.dumps(record), flush=True)
    return found


def show(runs: Sequence[Run], console: Console) -> None:
    for case in {run.case.name: run.case for run in runs}.values():
        table = Table(title=case.title, title_justify="left")
        for column in page.HEAD:
            table.add_column(column, justify="right" if column in page.NUMBERS else "left")
        for run in (each for each in runs if each.case is case):
            table.add_row(run.contender.name, run.contender.shares, *run.waits.cells)
        console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="the libraries of the clients in JavaScript, by npm")
    parser.add_argument("--case", action="append", choices=[*CASES])
    parser.add_argument("--of", type=lambda names: names.split(","), help="only these, with commas between")
    parser.add_argument("--plots", type=Path, help="folder for a picture of each case")
    parser.add_argument("--write-docs", action="store_true", help="into docs/understand/benchmarks.md")
    given, console, tools = parser.parse_args(), Console(stderr=True), Installed(default_cache())
    try:
        if given.fetch:
            fetch(tools)
            tools.fetch()
        load = load_average()
        runs = asyncio.run(measured(given, tools, console))
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    show(runs, console)
    pictures = page.pictures(runs, given.plots) if given.plots else []
    if given.write_docs:
        versions = {run.contender.name: run.contender.versions(tools) for run in runs}
        put(DOCUMENT, "sharing", page.markdown(runs, pictures, {**facts(Path.cwd()), "versions": versions}, load))
    return 0


if __name__ == "__main__":
    sys.exit(main())
