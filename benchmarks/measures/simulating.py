"""`timerd simulate`: how many jobs a second the queue model plays, with all metrics of all its ticks.

A week of 61,000 members that run every 8 hours, 1.28 million jobs with a row of metrics for each second, under each
strategy, with a source that is down for a day. Of a talk on slot scheduling it is known that its simulator took about
34,300 jobs a second.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.figures import Figure, at_least
from timerd.simulate import PRESETS, SimulatedRun, measure, play, summarize
from timerd.simulate.play import Playing

TITLE = "Simulated jobs"
MEMBERS = 61_000
OF_THE_TALK_PER_S = 34_300
FLOOR = at_least(10 * OF_THE_TALK_PER_S)
STRATEGIES = ("talk-self", "talk-central", "talk-slot", "talk-slot2")


async def run(bench: Bench) -> list[Figure]:
    return [await asyncio.to_thread(_one, bench, name) for name in STRATEGIES]


def _one(bench: Bench, name: str) -> Figure:
    settings = replace(PRESETS[name], members=bench.count(MEMBERS), seed=bench.seed)
    begun_s = time.perf_counter()
    run = _played(play(settings))
    summarize(run, measure(run))
    seconds = time.perf_counter() - begun_s
    return Figure(name, len(run.jobs) / seconds, "jobs/s", FLOOR, headline=name == "talk-slot2")


def _played(playing: Playing) -> SimulatedRun:
    """To its end."""
    try:
        while True:
            next(playing)
    except StopIteration as ended:
        run: SimulatedRun = ended.value
        return run
