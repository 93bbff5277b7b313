"""The picture of a soak: four series over one time axis, each kill a thin line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.process.soak.samples import Sample

_MIB = 1 << 20
Values = Callable[[Sample], float]


def draw(samples: Sequence[Sample], killed_s: Sequence[float], warm_up_s: float, title: str, path: Path) -> None:
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(10, 9), layout="constrained")
        axes = figure.subplots(5, 1, sharex=True)
        memory, files, disk, pace, late = axes
        _lines(memory, samples, "memory of the server, MiB", {"PSS": lambda s: s.pss_bytes / _MIB})
        _lines(files, samples, "its open files", {"files": lambda s: s.open_files})
        disks: dict[str, Values] = {
            "database": lambda s: s.database_bytes / _MIB,
            "write-ahead log": lambda s: s.log_bytes / _MIB,
        }
        _lines(disk, samples, "disk, MiB", disks)
        _pace(pace, samples)
        lateness: dict[str, Values] = {
            "p99": lambda s: max(0.1, s.late_p99_ms),
            "p50": lambda s: max(0.1, s.late_p50_ms),
        }
        _lines(late, samples, "lateness, ms", lateness)
        late.set_yscale("log")
        late.set_ylim(bottom=0.1)
        late.set_xlabel("minutes")
        for each in axes:
            for at_s in killed_s:
                each.axvline(at_s / 60, color="0.85", linewidth=0.8, zorder=0)
            each.axvspan(0, warm_up_s / 60, color="0.96", zorder=-1)
        figure.suptitle(title)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)


def _lines(axes: Axes, samples: Sequence[Sample], title: str, series: dict[str, Values]) -> None:
    minutes = [each.at_s / 60 for each in samples]
    for label, value in series.items():
        axes.plot(minutes, [value(each) for each in samples], label=label, linewidth=1.2)
    axes.set_title(title, loc="left", fontsize=9)
    if len(series) > 1:
        axes.legend(frameon=False, loc="upper right", ncols=2)
    axes.set_ylim(bottom=0)


def _pace(axes: Axes, samples: Sequence[Sample]) -> None:
    """Tasks a second between samples."""
    pairs = list(pairwise(samples))
    minutes = [after.at_s / 60 for _, after in pairs]
    for label, name in (("scheduled", "scheduled"), ("arrived", "arrived")):
        rates = [(getattr(b, name) - getattr(a, name)) / max(0.001, b.at_s - a.at_s) for a, b in pairs]
        axes.plot(minutes, rates, label=label, linewidth=1.0)
    axes.set_title("tasks a second", loc="left", fontsize=9)
    axes.legend(frameon=False, loc="upper right", ncols=2)
    axes.set_ylim(bottom=0)
