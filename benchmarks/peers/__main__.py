"""Measures timerd and what people would use instead of it, side by side.

    python -m benchmarks.peers [--fetch] [--only redis-always] [--row fire] [--repeat 3] [--scale 1] [--write-docs]

One repetition of each contender, row by row, then the next, so that a slow minute of the machine touches all a little.
Before, a sweep looks for the best settings of each. A peer that is not installed is named and left out; `--fetch` gets
libraries and servers into a cache outside of the tree and installs nothing into the system. Each figure is written as a
JSON line at once. The exit code is 1 if timerd failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import given as files
from benchmarks import plots, stopping
from benchmarks.document import put
from benchmarks.figures import BenchmarkFailed, lasted, shown
from benchmarks.machine import facts, load_average
from benchmarks.peers import page, table
from benchmarks.peers.comparison import Comparison, Record
from benchmarks.peers.contenders import CONTENDERS, TIMERD, Contender
from benchmarks.peers.installed import ROOT, Installed, default_cache
from benchmarks.peers.rows import ROWS

DOCUMENT = ROOT / "docs" / "understand" / "benchmarks.md"
WITHIN_S = 20 * 60


def _folder(text: str) -> Path:
    """Wherever a server is started from."""
    return Path(text).resolve()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fetch", action="store_true", help="get what is missing into the cache")
    parser.add_argument("--fetch-only", action="store_true", help="the same, and measure nothing")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where libraries and servers are kept")
    parser.add_argument("--only", action="append", choices=tuple(CONTENDERS), help="this contender; may be repeated")
    parser.add_argument("--row", action="append", choices=tuple(ROWS), help="this row; may be repeated")
    parser.add_argument("--repeat", type=files.positive(int), default=3)
    parser.add_argument("--scale", type=files.positive(float), default=1.0, help="0.01: a hundredth of the tasks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-sweep", action="store_true", help="take the first setting of each peer")
    parser.add_argument("--json", type=Path, default=Path("build/peers.jsonl"), help="where the figures go")
    parser.add_argument("--directory", type=_folder, default="build", help="where servers keep their data")
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, take the figures of this file")
    parser.add_argument("--write-docs", action="store_true", help="write tables and plots into docs")
    return parser.parse_args(arguments)


async def measured(given: argparse.Namespace, console: Console, comparison: Comparison, about: Record) -> list[Record]:
    records: list[Record] = []
    begun_s = time.monotonic() - about["fetch_s"]
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=console) as progress, given.json.open("w", encoding="utf-8") as file:
        if not given.no_sweep:
            await comparison.sweep(progress)
        about |= {"options": comparison.options, "steady": comparison.steady, "edges": comparison.edges()}
        about |= {"tried": comparison.tried, "sweep_s": round(time.monotonic() - begun_s - about["fetch_s"], 1)}
        print(json.dumps({"facts": about}), file=file, flush=True)
        for run, row, contender in progress.track(list(comparison.trials()), description="compare"):
            record = await comparison.one(run, row, contender)
            record |= {"elapsed_s": round(time.monotonic() - begun_s, 1), **_where(about, contender)}
            records.append(record)
            print(json.dumps(record), file=file, flush=True)
            said = f"{shown(record['value'])} {row.unit}" if "value" in record else f"[red]{record['failed']}[/]"
            progress.console.print(
                f"[dim]run {run + 1}[/] {row.name:<12} {contender.title:<34} {said}", highlight=False
            )
    return records


def _where(about: Record, contender: Contender) -> Record:
    shared = {name: about[name] for name in ("machine", "versions", "commit")}
    return {**shared, "peer_versions": about["peer_versions"].get(contender.name, {})}


def chosen(given: argparse.Namespace, tools: Installed) -> tuple[list[Contender], dict[str, str]]:
    """Who is here, and what the others lack."""
    wanted = [CONTENDERS[name] for name in given.only or CONTENDERS]
    lacking = {one.title: why for one in wanted if (why := one.lacks(tools))}
    return [one for one in wanted if one.title not in lacking], lacking


def _measure(given: argparse.Namespace, console: Console) -> tuple[Record, list[Record]]:
    tools, begun_s = Installed(given.cache.resolve()), time.monotonic()
    if given.fetch or given.fetch_only:
        with console.status("fetching what is missing"):
            tools.fetch()
    fetched_s = time.monotonic() - begun_s
    present, lacking = chosen(given, tools)
    for name, why in {**lacking, **tools.missing}.items():
        console.print(f"[yellow]missing:[/] {name}: {why}", highlight=False)
    versions = {one.name: found for one in present if (found := one.versions(tools))}
    if given.fetch_only:
        for name, found in versions.items():
            console.print(f"{CONTENDERS[name].title}: {page.listed(found)}", highlight=False)
        return {}, []
    given.directory.mkdir(parents=True, exist_ok=True)
    about: Record = {
        **facts(given.directory),
        "peer_versions": versions,
        "fetch_s": round(fetched_s, 1),
        "runs": given.repeat,
        "scale": given.scale,
        "seed": given.seed,
        "load average at the start": round(load_average(), 1),
        "missing": lacking,
    }
    return about, stopping.run(measured(given, console, Comparison(given, tools, present), about))


def show(console: Console, records: Sequence[Record]) -> None:
    for row in ROWS.values():
        found = list(table.lines(records, row))
        if found:
            shape = Table(title=row.title, title_justify="left", title_style="bold")
            for column in ("", "durable", *table.HEAD[2:]):
                shape.add_column(column, justify="right" if column in table.NUMBERS else "left")
            for line in found:
                shape.add_row(*line)
            console.print(shape)
            said = table.verdict(records, row)
            console.print(f"timerd: {said.text}\n" if said else "", style="green" if said and said.holds else "red")
    if records and "elapsed_s" in records[-1]:
        console.print(f"It took {lasted(records[-1]['elapsed_s'])}; at scale 1 it is to take {lasted(WITHIN_S)}.")


def read(source: Path) -> tuple[Record, list[Record]]:
    """What an earlier run wrote."""
    return files.read(source, "python -m benchmarks.peers", "contender")


def main(arguments: list[str] | None = None) -> int:
    given, console = parsed(arguments), Console()
    try:
        about, records = read(given.source) if given.source else _measure(given, console)
    except BenchmarkFailed as error:
        print(error, file=sys.stderr)
        return 1
    except stopping.Interrupted:
        print(f"Interrupted. What was measured is in {given.json}.", file=sys.stderr)
        return stopping.INTERRUPTED
    if not about:
        return 0
    show(console, records)
    failed = [one for one in records if "failed" in one]
    for one in failed:
        print(f"{one['contender']}, {one['row']}, run {one['run'] + 1}: {one['failed']}", file=sys.stderr)
    ours_failed = any(one["contender"] == TIMERD.name for one in failed)
    if given.write_docs and (ours_failed or not whole(about, records)):
        print("docs/understand/benchmarks.md is left as it is: it takes runs of all rows at scale 1.", file=sys.stderr)
        return 1
    if given.write_docs:
        pictures = plots.peers(records, DOCUMENT.parents[1] / "plots")
        put(DOCUMENT, "peers", "\n\n".join([page.markdown(about, records), *pictures]))
    return 1 if ours_failed else 0


def whole(about: Record, records: Sequence[Record]) -> bool:
    """The page has one part for all rows, so a run of some of them would take the others away."""
    measured_rows = {one["row"] for one in records if one["contender"] == TIMERD.name and "value" in one}
    return about["scale"] == 1 and measured_rows == set(ROWS)


if __name__ == "__main__":
    sys.exit(main())
