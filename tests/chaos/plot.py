"""The picture of the time to recover: one point a round, a line for the median of each fault."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

Seconds = Mapping[str, Sequence[float]]


def draw(late_s: Seconds, lasted_s: Seconds, path: Path) -> None:
    """The fault with the longest median at the top."""
    faults = sorted(late_s, key=lambda fault: statistics.median(late_s[fault]))
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9, 0.9 + 0.42 * len(faults)), layout="constrained")
        axes = figure.subplots()
        for at, fault in enumerate(faults):
            lasted, late = statistics.median(lasted_s[fault]), statistics.median(late_s[fault])
            axes.barh(at, lasted, height=0.62, color="0.9", label="the fault lasts (median)" if not at else None)
            axes.plot(late_s[fault], [at] * len(late_s[fault]), "o", color="C0", alpha=0.45, markersize=5)
            axes.plot([late, late], [at - 0.31, at + 0.31], color="C3", label="median" if not at else None)
        axes.set_yticks(range(len(faults)), faults)
        axes.set_xlabel("seconds from the fault to the last task that was late by more than a second; a point a round")
        axes.set_xlim(left=0)
        axes.legend(frameon=False, loc="lower right")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
