"""Ingress and delay of each strategy, one beside the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.bank_accounts.accounts import DAY_S, DOWN, HOUR_S
from timerd.simulate import SimulatedRun, Summary, measure, summarize

# A point of the curves is the worst of so many ticks.
_TOGETHER = 10
_LINE, _DOWN = "#3b6ea5", "#f3d9d6"


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one run, per ten minutes: the most accounts that came to the queue in a minute, and by how much more than a
    period the latest account had not been synced, of those whose bank is never down."""

    name: str
    ingress: NDArray[np.float64]
    late_h: NDArray[np.float64]
    summary: Summary


def curve(name: str, run: SimulatedRun) -> Curve:
    metrics = measure(run)
    late_s = np.nan_to_num(metrics.columns["since_last_max_s"]) - run.settings.cycle_s
    late_h = np.maximum(0.0, late_s) / HOUR_S
    return Curve(name, _worst(metrics.columns["queued"]), _worst(late_h), summarize(run, metrics))


def _worst(column: NDArray[np.float64]) -> NDArray[np.float64]:
    padded = np.append(column, np.zeros(-len(column) % _TOGETHER))
    worst: NDArray[np.float64] = padded.reshape(-1, _TOGETHER).max(axis=1)
    return worst


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Needs matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(1.6 + 2.6 * len(curves), 3.6), layout="constrained")
        grid: Any = figure.subplots(2, len(curves), sharex=True, sharey="row", squeeze=False)
        for at, each in enumerate(curves):
            grid[0][at].set_title(each.name)
            grid[1][at].set_xlabel("days")
            for axes, column in ((grid[0][at], each.ingress), (grid[1][at], each.late_h)):
                axes.axvspan(DOWN.from_s / DAY_S, DOWN.to_s / DAY_S, color=_DOWN, linewidth=0)
                days = np.arange(len(column)) * _TOGETHER * 60 / DAY_S
                axes.plot(days, column, color=_LINE, linewidth=0.9)
        grid[0][0].set_ylabel("ingress: accounts\nqueued in a minute")
        grid[1][0].set_ylabel("delay: how late the\nlatest account is, h")
        for row in grid:
            row[0].set_ylim(bottom=0)
        figure.savefig(path, dpi=110, metadata={"Software": None} if path.suffix == ".png" else None)
