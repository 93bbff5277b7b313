"""The pictures of docs/understand/benchmarks.md, drawn from the JSON lines of a run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.stats import CURVE

Records = Sequence[Mapping[str, Any]]
OURS, DURABLE, LOSING = "#b3261e", "#3b6ea5", "#b9c6d3"


def peers(records: Records, folder: Path) -> list[str]:
    """Throughput as bars, lateness as curves; the markdown that shows them."""
    drawn = [
        (_throughput, "peers-throughput.png", "Throughput beside the peers"),
        (_lateness, "peers-lateness.png", "Lateness beside the peers"),
    ]
    return [markdown for draw, file, title in drawn if (markdown := _drawn(records, folder / file, title, draw))]


def measures(records: Records, folder: Path) -> dict[str, str]:
    """By measure, the markdown of its picture."""
    drawn = {
        "lateness": (_curves, "lateness.png", "Lateness at the handler"),
        "growth": (_growth, "growth.png", "From an empty store to millions of pending tasks"),
        "recovery": (_recovery, "recovery.png", "Deliveries after a kill"),
    }
    return {
        name: markdown
        for name, (draw, file, title) in drawn.items()
        if (markdown := _drawn([one for one in records if one["measure"] == name], folder / file, title, draw))
    }


def _drawn(records: Records, path: Path, title: str, draw: Callable[[Records, Any], bool]) -> str:
    """Empty if there is nothing to draw."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    try:
        if not draw(records, axes):
            return ""
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without the version of the library and the date, an unchanged picture stays the same file.
        figure.savefig(path, dpi=110, metadata={"Software": None})
    finally:
        pyplot.close(figure)
    return f"![{title}](../plots/{path.name})"


def _throughput(records: Records, axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    from benchmarks.peers.contenders import CONTENDERS, TIMERD
    from benchmarks.peers.table import values

    told = ("single", "bulk-5m", "bulk-1h", "bulk-30d", "fire", "cancel", "cancel-many")
    rows = [row for row in told if any(one["row"] == row for one in records)]
    names = [name for name in CONTENDERS if any(one["contender"] == name and "value" in one for one in records)]
    width = 0.85 / max(1, len(names))
    for place, name in enumerate(names):
        one = CONTENDERS[name]
        rates = [statistics.median(values(records, row, name) or [0.0]) for row in rows]
        colour = OURS if one is TIMERD else DURABLE if one.durable else LOSING
        left = [at + place * width for at in range(len(rows))]
        axes.bar(left, rates, width * 0.92, color=colour, label=one.title)
        for at, rate in zip(left, rates, strict=True):
            if rate:
                axes.text(at, rate, f" {one.title}", rotation=90, fontsize=6, ha="center", va="bottom", clip_on=True)
    axes.set(
        yscale="log", ylabel="tasks/s, median", title="Red: timerd; blue: durable; grey: may lose what it confirmed"
    )
    axes.set_xticks([at + 0.4 for at in range(len(rows))], rows)
    # Room for the names above the bars.
    axes.set_ylim(top=100 * axes.get_ylim()[1])
    return bool(rows and names)


def _lateness(records: Records, axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    from benchmarks.peers.contenders import CONTENDERS

    named = [{**one, "label": CONTENDERS[one["contender"]].title} for one in records if one.get("curve")]
    return _cumulated(_middle(named, "curve"), axes)


def _curves(records: Records, axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    return _cumulated(_middle(records, "curve"), axes)


def _middle(records: Records, field: str) -> dict[str, Any]:
    """By label, what belongs to the run whose value is the median: the one that the table tells."""
    together: dict[str, list[Mapping[str, Any]]] = {}
    for one in records:
        if one.get(field):
            together.setdefault(one["label"], []).append(one)
    return {
        label: sorted(same, key=lambda one: float(one["value"]))[(len(same) - 1) // 2][field]
        for label, same in together.items()
    }


def _cumulated(curves: Mapping[str, Sequence[float]], axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    for name, curve in curves.items():
        axes.plot([max(0.05, late) for late in curve], CURVE, label=name)
    axes.set(xscale="log", xlabel="ms late at the handler", ylabel="share of the tasks")
    axes.grid(alpha=0.3)
    if curves:
        axes.legend(fontsize=7)
    return bool(curves)


def _growth(records: Records, axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    """Each figure over its own value on an empty store: flat is 1."""
    labels = list(dict.fromkeys(one["label"] for one in records if one.get("pending") == 0))
    for label in labels:
        same = [one for one in records if one.get("label") == label]
        by_size = {
            size: [one["value"] for one in same if one["pending"] == size] for size in {o["pending"] for o in same}
        }
        if all(by_size[0]):
            sizes = sorted(by_size)
            ratios = [_middle_ratio(by_size[size], by_size[0]) for size in sizes]
            axes.plot([max(1e4, size) for size in sizes], ratios, marker="o", label=label)
    axes.axhline(1.1, color="grey", linestyle=":")
    axes.set(xscale="log", xlabel="pending tasks (10,000 stands for none)", ylabel="times the figure of an empty store")
    axes.grid(alpha=0.3)
    if labels:
        axes.legend(fontsize=7)
    return bool(labels)


def _middle_ratio(values: Sequence[float], empty: Sequence[float]) -> float:
    """As the table tells it: each turn is held against its own empty store."""
    return statistics.median(value / was for value, was in zip(values, empty, strict=True))


def _recovery(records: Records, axes: Any) -> bool:  # noqa: ANN401 - matplotlib's axes
    curves = _middle(records, "timeline")
    for name, timeline in curves.items():
        axes.plot([point[0] / 1e3 for point in timeline], [point[1] for point in timeline], label=name)
    axes.set(xlabel="seconds after the kill", ylabel="different tasks that have come")
    axes.grid(alpha=0.3)
    if curves:
        axes.legend(fontsize=7)
    return bool(curves)
