"""Measures timerd and what people would use instead of it, side by side.

    python -m benchmarks.peers [--fetch] [--only redis-always] [--row fire] [--repeat 3] [--scale 1] [--write-docs]

One repetition of each contender, row by row, then the next, so that a slow minute of the machine touches all a
little. A peer that is not installed is named and left out; `--fetch` gets libraries and servers into a cache outside of
the tree and installs nothing into the system. Each figure is written as a JSON line at once. The exit code is 1 if
timerd failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import given as files
from benchmarks import plots, stopping
from benchmarks.document import put
from benchmarks.figures import BenchmarkFailed, TooBusy, shown
from benchmarks.machine import facts, load_average
from benchmarks.peers import table
from benchmarks.peers.contenders import CONTENDERS, TIMERD, Contender
from benchmarks.peers.installed import ROOT, Installed, default_cache
from benchmarks.peers.rows import ROWS, Row, Trial

DOCUMENT = ROOT / "docs" / "benchmarks.md"
# Of a row: enough to tell a good setting from a bad one.
SWEEP_SCALE = 0.3
SWEEP_ROWS = {"batch": "bulk-1h", "writers": "bulk-1h", "fetch": "fire"}
# A peer that hangs must not hang the others.
TRIAL_S = 120.0
SLACKS = (1, 4, 16)
Record = dict[str, Any]


def _folder(text: str) -> Path:
    """Wherever a server is started from."""
    return Path(text).resolve()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fetch", action="store_true", help="get what is missing into the cache")
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


class Comparison:
    """All repetitions of all rows of all contenders that are there."""

    def __init__(self, given: argparse.Namespace, tools: Installed, present: Sequence[Contender]) -> None:
        self._given = given
        self._tools = tools
        self._present = present
        self._rows = [ROWS[name] for name in given.row or ROWS]
        self.options: dict[str, dict[str, int]] = {
            one.name: {name: tried[0] for name, tried in one.sweep.items()} for one in present
        }

    def trials(self) -> Iterator[tuple[int, Row, Contender]]:
        for run in range(self._given.repeat):
            for row in self._rows:
                yield from ((run, row, one) for one in self._present if row.takes(one))

    async def sweep(self, progress: Progress) -> None:
        planned = [(one, name) for one in self._present for name, tried in one.sweep.items() if len(tried) > 1]
        chosen = {row.name for row in self._rows}
        planned = [(one, name) for one, name in planned if SWEEP_ROWS[name] in chosen]
        for one, name in progress.track(planned, description="sweep"):
            found = {}
            for value in one.sweep[name]:
                options = {**self.options[one.name], name: value}
                got = await self._trial(ROWS[SWEEP_ROWS[name]], one, 0, SWEEP_SCALE * self._given.scale, options)
                found[value] = got.get("value", 0.0)
            self.options[one.name][name] = max(found, key=lambda value: found[value])

    async def one(self, run: int, row: Row, contender: Contender) -> Record:
        got = await self._trial(row, contender, run, self._given.scale, self.options[contender.name])
        return {"row": row.name, "contender": contender.name, "run": run, "load": round(load_average(), 1), **got}

    async def _trial(self, row: Row, contender: Contender, run: int, scale: float, options: dict[str, int]) -> Record:
        """A machine that is too busy gets more time twice."""
        seed, found = self._given.seed + run, Record()
        for slack in SLACKS:
            with tempfile.TemporaryDirectory(prefix="peer-", dir=self._given.directory) as folder:
                try:
                    async with AsyncExitStack() as stack, asyncio.timeout(TRIAL_S):
                        trial = Trial(contender, self._tools, Path(folder), scale, seed, options, stack, slack)
                        return {**await row.run(trial), "seed": seed, "options": options}
                except (BenchmarkFailed, OSError) as failed:
                    found = {"failed": f"{failed or 'It took longer than anybody waits.'}{_log(Path(folder))}"}
                    if not isinstance(failed, TooBusy):
                        break
        return found


def _log(folder: Path) -> str:
    path = folder / "client.log"
    said = path.read_text(errors="replace").strip() if path.exists() else ""
    return f" Its client said last: {said[-400:]}" if said else ""


async def measured(given: argparse.Namespace, console: Console, comparison: Comparison, about: Record) -> list[Record]:
    records: list[Record] = []
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with Progress(console=console) as progress, given.json.open("w", encoding="utf-8") as file:
        if not given.no_sweep:
            await comparison.sweep(progress)
        about["options"] = comparison.options
        print(json.dumps({"facts": about}), file=file, flush=True)
        for run, row, contender in progress.track(list(comparison.trials()), description="compare"):
            record = await comparison.one(run, row, contender)
            records.append(record)
            print(json.dumps({**record, **_where(about)}), file=file, flush=True)
            said = f"{shown(record['value'])} {row.unit}" if "value" in record else f"[red]{record['failed']}[/]"
            progress.console.print(
                f"[dim]run {run + 1}[/] {row.name:<12} {contender.title:<34} {said}", highlight=False
            )
    return records


def _where(about: Record) -> Record:
    return {name: about[name] for name in ("machine", "versions", "commit")}


def chosen(given: argparse.Namespace, tools: Installed) -> tuple[list[Contender], dict[str, str]]:
    """Who is here, and what the others lack."""
    wanted = [CONTENDERS[name] for name in given.only or CONTENDERS]
    lacking = {one.title: why for one in wanted if (why := one.lacks(tools))}
    return [one for one in wanted if one.title not in lacking], lacking


def _measure(given: argparse.Namespace, console: Console) -> tuple[Record, list[Record]]:
    tools = Installed(given.cache.resolve())
    if given.fetch:
        with console.status("fetching what is missing"):
            tools.fetch()
    present, lacking = chosen(given, tools)
    for name, why in {**lacking, **tools.missing}.items():
        console.print(f"[yellow]missing:[/] {name}: {why}", highlight=False)
    given.directory.mkdir(parents=True, exist_ok=True)
    servers = {one.program: one.version(tools) for one in present if one.program}
    about: Record = {
        **facts(given.directory),
        "servers": ", ".join(filter(None, servers.values())),
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
            for column in ("", "durable", "median", "range", ""):
                shape.add_column(column, justify="right" if column in ("median", "range") else "left")
            for line in found:
                shape.add_row(*line)
            console.print(shape)
            said = table.verdict(records, row)
            console.print(f"timerd: {said.text}\n" if said else "", style="green" if said and said.holds else "red")


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
    show(console, records)
    failed = [one for one in records if "failed" in one]
    for one in failed:
        print(f"{one['contender']}, {one['row']}, run {one['run'] + 1}: {one['failed']}", file=sys.stderr)
    ours_failed = any(one["contender"] == TIMERD.name for one in failed)
    if given.write_docs and (ours_failed or not whole(about, records)):
        print("docs/benchmarks.md is left as it is: it takes runs of all rows at scale 1.", file=sys.stderr)
        return 1
    if given.write_docs:
        pictures = plots.peers(records, DOCUMENT.parent / "plots")
        put(DOCUMENT, "peers", "\n\n".join([table.markdown(about, records), *pictures]))
    return 1 if ours_failed else 0


def whole(about: Record, records: Sequence[Record]) -> bool:
    """The page has one part for all rows, so a run of some of them would take the others away."""
    measured_rows = {one["row"] for one in records if one["contender"] == TIMERD.name and "value" in one}
    return about["scale"] == 1 and measured_rows == set(ROWS)


if __name__ == "__main__":
    sys.exit(main())
