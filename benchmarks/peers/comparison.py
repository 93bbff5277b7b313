"""All repetitions of all rows of all contenders that are there, and before it the sweep for their best settings."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import Progress

from benchmarks.figures import BenchmarkFailed, TooBusy
from benchmarks.machine import load_average
from benchmarks.peers.contenders import Contender
from benchmarks.peers.installed import Installed
from benchmarks.peers.rows import ROWS, SERVERS, Row, Trial
from benchmarks.peers.sweep import again, best_of, climb

# Of a row: enough to tell a good setting from a bad one.
SWEEP_SCALES = {"bulk-1h": 0.5, "fire": 0.25, "lateness": 0.2}
SWEEP_ROWS = {"batch": "bulk-1h", "writers": "bulk-1h", "fetch": "fire", "consumers": "fire", "threads": "fire"}
# Of the tasks of a burst, by a worker that fetches ahead.
MOST_IN_HAND = 0.1
STEADY, OF_WORKERS = "lateness", ("fetch", "consumers", "threads")
# A peer that hangs must not hang the others.
TRIAL_S, SWEEP_TRIAL_S = 120.0, 30.0
SLACKS = (1, 4, 16)
Record = dict[str, Any]
Options = dict[str, int]


class Comparison:
    """`options` are what each contender is given; `steady` instead of them where tasks are due at a steady rate, for
    what takes most at once is not what is soonest there."""

    def __init__(self, given: argparse.Namespace, tools: Installed, present: Sequence[Contender]) -> None:
        self._given = given
        self._tools = tools
        self._present = present
        self._rows = [ROWS[name] for name in given.row or ROWS]
        self.options: dict[str, Options] = {
            one.name: {name: ladder.first for name, ladder in one.sweep.items()} for one in present
        }
        self.steady: dict[str, Options] = {}
        # By contender and setting: what was tried, and how it did.
        self.tried: dict[str, dict[str, dict[int, float]]] = {}

    def trials(self) -> Iterator[tuple[int, Row, Contender]]:
        """Each repetition begins with another contender, for who comes first follows the lightest work."""
        for run in range(self._given.repeat):
            first = run * len(self._present) // self._given.repeat
            for row in self._rows:
                turned = [*self._present[first:], *self._present[:first]]
                yield from ((run, row, one) for one in turned if row.takes(one))

    def edges(self) -> dict[str, list[str]]:
        """Settings whose best is the last that was tried."""
        ladders = {one.name: one.sweep for one in self._present}
        found = {
            name: [setting for setting, rates in tried.items() if ladders[name][setting].ends_at(rates)]
            for name, tried in self.tried.items()
        }
        return {name: settings for name, settings in found.items() if settings}

    async def sweep(self, progress: Progress) -> None:
        chosen = {row.name for row in self._rows}
        planned = [(one, name) for one in self._present for name in one.sweep if SWEEP_ROWS[name] in chosen]
        for one, name in progress.track(planned, description="sweep"):
            measure = partial(self._rate, one, name)
            tried = await climb(one.sweep[name], measure)
            if one.name in SERVERS:
                await again(tried, measure)
            self.tried.setdefault(one.name, {})[name] = tried
            self.options[one.name][name] = best_of(tried)
            rates = ", ".join(f"{value:,}: {rate:,.0f}/s" for value, rate in tried.items())
            progress.console.print(f"[dim]sweep[/] {one.title}, {name}: {rates}", highlight=False)
        if STEADY in chosen:
            for one in progress.track(self._present, description="steady"):
                await self._sweep_steady(one)

    async def _rate(self, one: Contender, name: str, value: int) -> float | None:
        """Where the whole burst would be in hand at once, its rate says nothing of how it goes on."""
        options = {**self.options[one.name], name: value}
        in_hand = options.get("fetch", 1) * options.get("consumers", 1) * options.get("threads", 1)
        if name in OF_WORKERS and not one.waits_in_worker and in_hand > one.sizes.fire * MOST_IN_HAND:
            return None
        got = await self._small(SWEEP_ROWS[name], one, options)
        return float(got.get("value", 0.0))

    async def _sweep_steady(self, one: Contender) -> None:
        best = self.options[one.name]
        first = {name: one.sweep[name].first if name in OF_WORKERS else value for name, value in best.items()}
        if first != best:
            late_ms = [(await self._small(STEADY, one, tried)).get("value", 1e9) for tried in (best, first)]
            self.steady[one.name] = first if late_ms[1] < late_ms[0] else best

    async def _small(self, row: str, one: Contender, options: Options) -> Record:
        scale = SWEEP_SCALES[row] * self._given.scale
        return await self._trial(ROWS[row], one, 0, scale, options, SWEEP_TRIAL_S)

    async def one(self, run: int, row: Row, contender: Contender) -> Record:
        options, begun_s = self.options[contender.name], time.monotonic()
        if row.name == STEADY:
            options = self.steady.get(contender.name, options)
        got = await self._trial(row, contender, run, self._given.scale, options, TRIAL_S)
        about = {"load": round(load_average(), 1), "took_s": round(time.monotonic() - begun_s, 1)}
        return {"row": row.name, "contender": contender.name, "run": run, **about, **got}

    async def _trial(
        self, row: Row, contender: Contender, run: int, scale: float, options: Options, patience_s: float
    ) -> Record:
        """A machine that is too busy gets more time twice."""
        seed, found = self._given.seed + run, Record()
        # What the one before has left to be written out would slow this one's syncs.
        await asyncio.to_thread(os.sync)
        for slack in SLACKS:
            with tempfile.TemporaryDirectory(prefix="peer-", dir=self._given.directory) as folder:
                try:
                    async with AsyncExitStack() as stack, asyncio.timeout(patience_s):
                        trial = Trial(contender, self._tools, Path(folder), scale, seed, options, stack, slack)
                        return {**await row.run(trial), "seed": seed, "options": options}
                except (BenchmarkFailed, OSError) as failed:
                    said = f"{failed or 'It took longer than anybody waits.'}{_log(Path(folder))}"
                    found = {"failed": said, "seed": seed, "options": options}
                    if not isinstance(failed, TooBusy):
                        break
        return found


def _log(folder: Path) -> str:
    path = folder / "client.log"
    said = path.read_text(errors="replace").strip() if path.exists() else ""
    return f" Its client said last: {said[-400:]}" if said else ""
