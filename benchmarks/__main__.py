"""Runs the measures and says what they found.

    python -m benchmarks [NAME ...] [--all] [--repeat 3] [--scale 1] [--write-docs] [--readme] [--from FILE]

Without names, all but the long ones, which take from three minutes (hot_minute) to half an hour (growth). The runs are
interleaved, so that a slow minute of the machine touches every measure a little instead of one of them wholly. Each
figure goes to a file of JSON lines at once; `--from` makes tables and documents of such a file. `--write-docs` replaces
the parts of docs/understand/benchmarks.md that were measured, and only these. The exit code is 1 if a task was lost or
a measure failed; a floor that is missed is shown, and fails nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks import given as files
from benchmarks import plots, report, stopping
from benchmarks.bench import Bench
from benchmarks.document import put
from benchmarks.figures import BenchmarkFailed, Figure, TooBusy, forbidden, lasted, record_of, rows_of, shown
from benchmarks.given import Records
from benchmarks.machine import facts, load_average
from benchmarks.measures import MEASURES, Measure

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "understand" / "benchmarks.md"
SLACKS = (1, 4, 16)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    parser.add_argument("--only", action="append", default=[], choices=tuple(MEASURES), help="the same as a name")
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--repeat", type=files.positive(int), default=3, help="runs of each measure (default: 3)")
    parser.add_argument("--scale", type=files.positive(float), default=1.0, help="0.01: a hundredth of the tasks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/benchmarks.jsonl"), help="where the figures go")
    parser.add_argument("--directory", type=Path, default=Path("build"), help="where servers keep their data")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, take the figures of this file")
    parser.add_argument("--write-docs", action="store_true", help="write docs/understand/benchmarks.md")
    parser.add_argument("--readme", action="store_true", help='print the table "In short" of the page')
    given = parser.parse_args(arguments)
    for name in given.names:
        if name not in MEASURES:
            parser.error(f"{name!r} is no measure. There are {', '.join(MEASURES)}.")
    given.only = list(dict.fromkeys([*given.only, *given.names]))
    return given


def chosen(given: argparse.Namespace) -> list[Measure]:
    short = [one.name for one in MEASURES.values() if given.all or not one.long]
    return [MEASURES[name] for name in given.only or short]


async def run_all(arguments: argparse.Namespace, console: Console, about: dict[str, Any]) -> Records:
    records: Records = []
    begun_s = time.monotonic()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    planned = [(run, measure) for run in range(arguments.repeat) for measure in chosen(arguments)]
    with arguments.json.open("w", encoding="utf-8") as file, Progress(console=console) as progress:
        print(json.dumps({"facts": about}), file=file, flush=True)
        for run, measure in progress.track(planned, description="measure"):
            load = f"[dim]run {run + 1} of {arguments.repeat}, load {load_average():.1f}[/]"
            console.print(load, measure.title, highlight=False)
            new = await _records(measure, arguments, run, console)
            known = {"seed": arguments.seed + run, "load": round(load_average(), 1), **_where(about)}
            known["elapsed_s"] = round(time.monotonic() - begun_s, 1)
            file.writelines(json.dumps({**record, **known}) + "\n" for record in new)
            file.flush()
            records += new
    return records


def _where(about: dict[str, Any]) -> dict[str, Any]:
    """A line says by itself what it is worth."""
    return {name: about[name] for name in ("machine", "versions", "commit")}


async def _records(measure: Measure, arguments: argparse.Namespace, run: int, console: Console) -> Records:
    """A measure that fails does not take the others with it."""
    try:
        figures = await run_one(measure, arguments, run)
    except (BenchmarkFailed, OSError) as failed:
        console.print(f"    [red]failed:[/] {failed}", highlight=False)
        return [{"measure": measure.name, "run": run, "failed": str(failed)}]
    for figure in figures:
        console.print(f"    {figure.name}: {shown(figure.value)} {figure.unit}", highlight=False)
    return [record_of(measure.name, run, figure) for figure in figures]


async def run_one(measure: Measure, arguments: argparse.Namespace, run: int) -> list[Figure]:
    """A machine that is too busy gets more time twice."""
    for slack in SLACKS:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.directory) as folder:
            try:
                async with AsyncExitStack() as stack:
                    return await measure.run(Bench(Path(folder), arguments.scale, arguments.seed + run, stack, slack))
            except TooBusy:
                if slack == SLACKS[-1]:
                    raise
    raise AssertionError("the last try returns or raises")


def _took(records: Records) -> dict[str, str]:
    """Of all that was measured together; earlier files do not say it."""
    ends_s = [record["elapsed_s"] for record in records if "elapsed_s" in record]
    return {"the whole run took": lasted(max(ends_s))} if ends_s else {}


def read(source: Path) -> tuple[dict[str, Any], Records]:
    """What an earlier run wrote."""
    return files.read(source, "python -m benchmarks", "measure")


def _measured(arguments: argparse.Namespace, console: Console) -> tuple[dict[str, Any], Records]:
    arguments.directory.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {
        **facts(arguments.directory),
        "runs": arguments.repeat,
        "scale": arguments.scale,
        "seed": arguments.seed,
        "load average at the start": round(load_average(), 1),
    }
    for name, value in about.items():
        console.print(f"{name}: {value}", highlight=False)
    return about, stopping.run(run_all(arguments, console, about))


def main(given: list[str] | None = None) -> int:
    arguments, console = parsed(given), Console()
    try:
        about, records = read(arguments.source) if arguments.source else _measured(arguments, console)
    except BenchmarkFailed as failed:
        print(failed, file=sys.stderr)
        return 1
    except stopping.Interrupted:
        print(f"Interrupted. What was measured is in {arguments.json}.", file=sys.stderr)
        return stopping.INTERRUPTED
    about |= _took(records)
    failures = [record for record in records if "failed" in record]
    rows = rows_of(record for record in records if "failed" not in record)
    report.print_rows(console, rows, judged=about["scale"] == 1)
    for failure in failures:
        print(f"{failure['measure']}, run {failure['run'] + 1}: {failure['failed']}", file=sys.stderr)
    broken = forbidden(rows)
    for sentence in broken:
        print(sentence, file=sys.stderr)
    if arguments.readme:
        print(report.readme(rows, about))
    if arguments.write_docs and (failures or about["scale"] != 1):
        print(f"{DOCUMENT.name} is left as it is: it takes runs at scale 1 without a failure.", file=sys.stderr)
        return 1
    if arguments.write_docs:
        pictures = plots.measures(records, DOCUMENT.parents[1] / "plots")
        for name, text in report.parts(rows, about).items():
            put(DOCUMENT, name, "\n\n".join(filter(None, [text, pictures.get(name)])))
        # It reads this page when it begins.
        subprocess.run([sys.executable, "-m", "benchmarks.capacity", "--write-docs"], check=True)
    return 1 if failures or broken else 0


if __name__ == "__main__":
    sys.exit(main())
