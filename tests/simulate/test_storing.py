"""The file of a run: a row per tick, its views, and nothing where it was not finished."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.simulate.playing import SMALL, played
from timerd.simulate import Strategy, measure, summarize
from timerd.simulate.curves import curves
from timerd.simulate.metrics import KNOWN
from timerd.simulate.storing import written


def made(path: Path) -> None:
    with written(path) as file:
        for strategy in (Strategy.SELF, Strategy.SLOT2):
            run = played(SMALL, strategy=strategy, tick_s=100)
            metrics = measure(run)
            file.add(f"{strategy}!", run.settings, metrics, summarize(run, metrics))


def test_a_row_per_tick_and_a_value_per_metric(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    made(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT run, name, strategy FROM runs").fetchall() == [
            (1, "self!", "self"),
            (2, "slot2!", "slot2"),
        ]
        [(settings, summary)] = file.execute("SELECT settings, summary FROM runs WHERE run = 2")
        assert (json.loads(settings)["members"], json.loads(summary)["jobs"]) == (2, 8)
        # By the story of `self` in test_strategies.py.
        ticks = file.execute(
            "SELECT at_s, queued, started, done, depth, executing, delay_max_s FROM ticks WHERE run = 1"
        )
        assert ticks.fetchall() == [
            (0.0, 2, 2, 2, 0, 0, 25.468),
            (100.0, 2, 2, 1, 0, 1, 0.0),
            (200.0, 1, 1, 1, 0, 1, 0.0),
            (300.0, 1, 1, 2, 0, 0, 0.0),
        ]
        known = file.execute("SELECT metric, unit, meaning FROM known_metrics").fetchall()
        assert known == [tuple(each) for each in KNOWN]
        [(values, ticks_in_all)] = file.execute(
            "SELECT (SELECT count(*) FROM measurements), (SELECT count(*) FROM ticks)"
        )
        assert values == len(KNOWN) * ticks_in_all == 8 * len(KNOWN)
        done = file.execute("SELECT value FROM measurements WHERE run = 1 AND metric = 'done' ORDER BY at_s").fetchall()
        assert done == [(2,), (1,), (1,), (2,)]


def test_a_file_that_is_not_finished_is_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with pytest.raises(KeyboardInterrupt), written(path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_ticks_without_jobs_have_no_delay(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with written(path) as file:
        run = played(SMALL, tick_s=10)
        metrics = measure(run)
        file.add("x", run.settings, metrics, summarize(run, metrics))
    with closing(sqlite3.connect(path)) as opened:
        first = opened.execute("SELECT delay_mean_s, since_last_max_s, never_run FROM ticks WHERE at_s = 0").fetchone()
    assert first == (None, None, 2)


def test_curves_keep_the_maxima() -> None:
    kept = curves("x", measure(played(SMALL, tick_s=0.1))).columns
    assert len(kept["queued"]) <= 700
    assert (kept["queued"].max(), kept["depth"].max()) == (1, 1)
