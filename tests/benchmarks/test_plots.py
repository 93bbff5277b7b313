"""The plots are drawn from the lines that a run writes; what was not measured has no plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import plots
from benchmarks.stats import CURVE, summary


def test_a_curve_has_a_point_for_each_share() -> None:
    told = summary((n / 10 for n in range(1_000)), range(1_000))
    assert len(told["curve"]) == len(CURVE)
    assert told["curve"] == sorted(told["curve"])
    assert (told["curve"][49], told["p50_ms"], told["max_ms"]) == (49.9, 49.9, 99.9)
    assert (told["early"], told["distinct"]) == (0, 1_000)
    assert summary([], [])["curve"] == []


def test_each_measure_with_a_picture_gets_one(tmp_path: Path) -> None:
    curve = list(range(len(CURVE)))
    records: list[dict[str, Any]] = [
        {"measure": "lateness", "name": "p50", "label": "per task", "value": 1.0, "curve": curve},
        {"measure": "recovery", "name": "all", "label": "killed", "value": 1.0, "timeline": [[0.0, 1], [900.0, 50]]},
        *({"measure": "growth", "name": f"{n}", "label": "fire", "pending": n, "value": 5.0 + n} for n in (0, 100_000)),
    ]
    drawn = plots.measures(records, tmp_path / "plots")
    assert drawn["growth"] == "![From an empty store to millions of pending tasks](../plots/growth.png)"
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"growth.png", "lateness.png", "recovery.png"}
    assert plots.measures([], tmp_path) == {}


def test_peers_get_bars_and_curves(tmp_path: Path) -> None:
    records = [
        {"row": "fire", "contender": "timerd", "run": 0, "value": 100.0},
        {"row": "fire", "contender": "redis-always", "run": 0, "value": 90.0},
        {"row": "lateness", "contender": "timerd", "run": 0, "value": 1.0, "curve": list(range(len(CURVE)))},
    ]
    assert len(plots.peers(records, tmp_path)) == 2
    assert plots.peers([], tmp_path) == []


def test_a_picture_shows_the_run_that_the_table_tells() -> None:
    runs: list[dict[str, Any]] = [{"label": "p", "value": value, "curve": [value]} for value in (9.0, 1.0, 4.0)]
    assert plots._middle(runs, "curve") == {"p": [4.0]}
    assert plots._middle([{"label": "p", "value": 1.0, "curve": []}], "curve") == {}
