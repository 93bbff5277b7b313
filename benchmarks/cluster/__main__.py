"""Measures a cluster, and says what was found.

    python -m benchmarks.cluster [NAME ...] [--repeat 3] [--scale 1] [--write-docs] [--from FILE]

The node is that of TIMERD_TEST_CASSANDRA, or one is started from jars, without what makes its start quick and its work
slow. Runs are interleaved; each figure goes to a file of JSON lines at once. `--write-docs` writes the part of
docs/understand/benchmarks.md of all that was measured. The exit code is 1 if a task was lost or a measure failed; a
floor that is missed is shown, and fails nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from benchmarks.bench import Bench
from benchmarks.cluster import calls, firing, handover, hot_second, insert, lateness, rate, recurring, slots, takeover
from benchmarks.cluster.stage import Stage
from benchmarks.document import put
from benchmarks.figures import BenchmarkFailed, Figure, TooBusy, forbidden, record_of, rows_of, shown
from benchmarks.machine import facts, load_average
from benchmarks.report import COLUMNS, cells, markdown
from tests.engines.finding import cassandra
from tests.engines.starting import CANNOT_START

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "understand" / "benchmarks.md"
PART = "figures of a cluster"
MEASURES: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (insert, firing, lateness, hot_second, rate, slots, recurring, calls, takeover, handover)
}
# They last minutes, or say numbers that do not vary.
ONCE = ("takeover", "calls", "handover", "hot_second", "recurring")
SLACKS = (1, 4, 16)
Records = list[dict[str, Any]]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--repeat", type=int, default=3, help=f"runs of each measure but {' and '.join(ONCE)}")
    parser.add_argument("--scale", type=float, default=1.0, help="0.01: a hundredth of the tasks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/cluster.jsonl"), help="where the figures go")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="where processes keep their logs")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, take the figures of this file")
    parser.add_argument("--write-docs", action="store_true", help="write docs/understand/benchmarks.md")
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in MEASURES:
            parser.error(f"{name!r} is no measure. There are {', '.join(MEASURES)}.")
    return given


def planned(given: argparse.Namespace) -> list[tuple[int, str]]:
    names = given.names or list(MEASURES)
    return [(run, name) for run in range(given.repeat) for name in names if run == 0 or name not in ONCE]


async def run_all(given: argparse.Namespace, stage: Stage, console: Console, about: Mapping[str, Any]) -> Records:
    records: Records = []
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with given.json.open("w", encoding="utf-8") as file:
        print(json.dumps({"facts": about}), file=file, flush=True)
        for run, name in planned(given):
            console.print(f"[dim]run {run + 1}, load {load_average():.1f}[/]", MEASURES[name].TITLE, highlight=False)
            new = await _records(name, given, run, stage, console)
            file.writelines(json.dumps({**record, "load": round(load_average(), 1)}) + "\n" for record in new)
            file.flush()
            records += new
    return records


async def _records(name: str, given: argparse.Namespace, run: int, stage: Stage, console: Console) -> Records:
    """A measure that fails does not take the others with it."""
    try:
        figures = await run_one(name, given, run, stage)
    except BenchmarkFailed as failed:
        console.print(f"    [red]failed:[/] {failed}", highlight=False)
        return [{"measure": name, "run": run, "failed": str(failed)}]
    for figure in figures:
        console.print(f"    {figure.name}: {shown(figure.value)} {figure.unit}", highlight=False)
    return [record_of(name, run, figure) for figure in figures]


async def run_one(name: str, given: argparse.Namespace, run: int, stage: Stage) -> list[Figure]:
    """A machine that is too busy gets more time twice."""
    for slack in SLACKS:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=given.directory) as folder:
            try:
                async with AsyncExitStack() as stack:
                    bench = Bench(Path(folder), given.scale, given.seed + run, stack, slack)
                    figures: list[Figure] = await MEASURES[name].run(bench, stage)
                    return figures
            except TooBusy:
                if slack == SLACKS[-1]:
                    raise
    raise AssertionError("the last try returns or raises")


def text_of(records: Records, about: Mapping[str, Any]) -> str:
    """The part of the page."""
    rows = rows_of(record for record in records if "failed" not in record)
    parts = [f"`python -m benchmarks.cluster --write-docs`; {'; '.join(f'{k}: {v}' for k, v in about.items())}."]
    for name, module in MEASURES.items():
        if mine := [row for row in rows if row.measure == name]:
            told = (module.__doc__ or "").strip()
            parts.append(f"### {module.TITLE}\n\n{told}\n\n{markdown(map(cells, mine), COLUMNS)}")
    return "\n\n".join(["## A cluster", *parts])


def measured(given: argparse.Namespace, console: Console) -> tuple[dict[str, Any], Records]:
    given.directory.mkdir(parents=True, exist_ok=True)
    about = {**facts(given.directory), "runs": given.repeat, "scale": given.scale, "load": round(load_average(), 1)}
    with cassandra(quick_start=False) as found:
        about["node"] = found.how
        return about, asyncio.run(run_all(given, Stage(found), console, about))


def read(source: Path) -> tuple[dict[str, Any], Records]:
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    return lines[0]["facts"], lines[1:]


def main(arguments: Sequence[str] | None = None) -> int:
    given, console = parsed(arguments), Console()
    try:
        about, records = read(given.source) if given.source else measured(given, console)
    except CANNOT_START as reason:
        print(reason, file=sys.stderr)
        return 1
    failures = [record for record in records if "failed" in record]
    for failure in failures:
        print(f"{failure['measure']}, run {failure['run'] + 1}: {failure['failed']}", file=sys.stderr)
    broken = forbidden(rows_of(record for record in records if "failed" not in record))
    for sentence in broken:
        print(sentence, file=sys.stderr)
    if given.write_docs and (failures or about["scale"] != 1):
        print(f"{DOCUMENT.name} is left as it is: it takes runs at scale 1 without a failure.", file=sys.stderr)
        return 1
    if given.write_docs:
        put(DOCUMENT, PART, text_of(records, about))
    return 1 if failures or broken else 0


if __name__ == "__main__":
    sys.exit(main())
