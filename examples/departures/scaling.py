"""A day of real departures as an autoscaler sees it: how many workers it asks for, by whether it looks ahead.

Each flight that left gives so many reminders at the minute of its departure. Looking ahead is what timerd tells KEDA
(timerd/core/cluster/forecast.py). Beside it stands the usual rule: it sees the load of the last minute, asks for a
replica, and has it when it has started. What was due in a minute beyond what the replicas of that minute can do is
late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from rich.console import Console

from examples.departures.data import MINUTE_MS, Flight, load_day, midnight_ms
from timerd.core.cluster.forecast import Outlook, demand_per_s, replicas_for

MINUTES = 24 * 60
PASSENGERS = 180
# What one worker does, a second.
PER_REPLICA = 5.0
LEAST, MOST = 1, 20
START_MS = 3 * MINUTE_MS
HOLD_MS = 5 * MINUTE_MS
AHEAD = Outlook(START_MS, HOLD_MS)
# The last minute that is over.
BACK = Outlook(-MINUTE_MS, HOLD_MS)
PLOT = Path(__file__).parents[2] / "docs" / "plots" / "scaler.png"


class Course(NamedTuple):
    """Of a day, minute by minute; `late`: reminders that were due and could not be worked on in their minute."""

    replicas: list[int]
    late: int


def load_of(flights: Iterable[Flight]) -> dict[int, int]:
    """Start of a minute -> reminders that are due in it."""
    departed = (flight.departed_ms for flight in flights if flight.departed_ms is not None)
    minutes = Counter(ms // MINUTE_MS * MINUTE_MS for ms in departed)
    return {minute_ms: count * PASSENGERS for minute_ms, count in minutes.items()}


def course_of(due: Mapping[int, int], start_ms: int, outlook: Outlook) -> Course:
    """More replicas are there a start after they were asked for, less at once."""
    minutes = range(start_ms, start_ms + MINUTES * MINUTE_MS, MINUTE_MS)

    def asked(now_ms: int) -> int:
        return replicas_for(demand_per_s(due, now_ms, outlook), PER_REPLICA, LEAST, MOST)

    replicas = [min(asked(now_ms - ago_ms) for ago_ms in range(0, START_MS + 1, MINUTE_MS)) for now_ms in minutes]
    rooms = [int(count * PER_REPLICA * MINUTE_MS / 1000) for count in replicas]
    late = sum(max(0, due.get(now_ms, 0) - room) for now_ms, room in zip(minutes, rooms, strict=True))
    return Course(replicas, late)


def plot_day(day: date, path: Path, console: Console) -> bool:
    """True if nobody who looks ahead is late."""
    due, start_ms = load_of(load_day(day)), midnight_ms(day)
    ahead, back = course_of(due, start_ms, AHEAD), course_of(due, start_ms, BACK)
    _draw(due, start_ms, ahead, back, day).savefig(path, dpi=110)
    late = f"{ahead.late:,} looking ahead, {back.late:,} looking back"
    console.print(f"{sum(due.values()):,} reminders; late for want of a worker: {late}")
    console.print(f"worker hours: {sum(ahead.replicas) / 60:.0f} and {sum(back.replicas) / 60:.0f}; drawn in {path}")
    return ahead.late == 0


def _draw(due: Mapping[int, int], start_ms: int, ahead: Course, back: Course, day: date) -> Figure:
    hours = [n / 60 for n in range(MINUTES)]
    needed = [due.get(start_ms + n * MINUTE_MS, 0) / 60 / PER_REPLICA for n in range(MINUTES)]
    figure = Figure(figsize=(11, 6.5), layout="constrained")
    whole, part = figure.subplots(2, 1)
    for axes, (first, last) in ((whole, (0.0, 24.0)), (part, (5.5, 8.5))):
        axes.fill_between(hours, needed, step="post", color="0.8", label="load, in workers")
        axes.step(hours, back.replicas, where="post", color="tab:orange", label=f"looking back: {back.late:,} late")
        axes.step(hours, ahead.replicas, where="post", color="tab:blue", label=f"looking ahead: {ahead.late:,} late")
        axes.set_xlim(first, last)
        axes.set_ylim(0, None)
        axes.set_ylabel("workers")
    whole.legend(loc="upper left", ncols=3, frameon=False)
    whole.set_title(f"{sum(due.values()):,} reminders of {day:%d %B %Y}, {PER_REPLICA:g} a second for a worker")
    part.set_xlabel("hour in New York")
    return figure
