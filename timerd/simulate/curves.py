"""Curves of runs, side by side: what comes to the queue, what waits in it, and how long ago members have run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timerd.simulate.durations import Floats
from timerd.simulate.metrics import Metrics
from timerd.simulate.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More than a plot of this width can show.
_POINTS = 700
_HOUR_S = 3_600.0
_DOWN, _STOPPED, _LINE = "#f3d9d6", "#dddddd", "#3b6ea5"


@dataclass(frozen=True, slots=True)
class Curves:
    """Of one run: the maxima of a metric within each of some hundred stretches of time."""

    name: str
    settings: Settings
    columns: dict[str, Floats]


# (metric, label, divided by)
_ROWS = (
    ("queued", "jobs queued\nin a tick", 1.0),
    ("depth", "jobs waiting", 1.0),
    ("since_last_max_s", "longest time since\na member's last run, h", _HOUR_S),
    ("overdue", "members that\nhave missed a run", 1.0),
)


def curves(name: str, metrics: Metrics) -> Curves:
    """Keeps what is drawn, and lets go of the rest."""
    columns = {metric: _maxima(metrics.columns[metric] / divisor) for metric, _, divisor in _ROWS}
    return Curves(name, metrics.settings, columns)


def _maxima(column: Floats) -> Floats:
    width = -(-len(column) // _POINTS)
    padded = np.append(np.nan_to_num(column), np.zeros(-len(column) % width))
    maxima: Floats = padded.reshape(-1, width).max(axis=1)
    return maxima


def draw(runs: Sequence[Curves], path: Path) -> None:
    """A column for each run, a row for each metric, over the same axes. Raises ImportError without matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(1.6 + 2.6 * len(runs), 1.7 * len(_ROWS)), layout="constrained")
        grid: Any = figure.subplots(len(_ROWS), len(runs), sharex=True, sharey="row", squeeze=False)
        for at, run in enumerate(runs):
            grid[0][at].set_title(run.name)
            grid[-1][at].set_xlabel("days")
            for axes, (metric, label, _) in zip(grid[:, at], _ROWS, strict=True):
                _draw_one(axes, run, metric)
                axes.set_ylabel(label if at == 0 else "")
        for row in grid:
            # Once all of them are in: they share the axis.
            row[0].set_ylim(bottom=0)
        # Without the version of the library, an unchanged picture stays the same file.
        figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)


def _draw_one(axes: Axes, run: Curves, metric: str) -> None:
    day_s = 24 * _HOUR_S
    bad = [(each, _DOWN) for each in run.settings.outages] + [(each, _STOPPED) for each in run.settings.stops]
    for each, colour in bad:
        axes.axvspan(each.from_s / day_s, min(each.to_s, run.settings.span_s) / day_s, color=colour, linewidth=0)
    column = run.columns[metric]
    axes.plot(np.linspace(0, run.settings.span_s / day_s, len(column)), column, color=_LINE, linewidth=0.9)
