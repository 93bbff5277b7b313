"""The short forms of `make cluster-demo` and `make departures-cluster`: three instances on a real node, one of which is
killed with kill -9 on the way and started again, judged by what callers and workers wrote down."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from examples.departures.logs import CRASHES, Crash, read_log
from examples.departures.replay import Wish, replay, verdict_of
from tests.engines.cluster_demo import played
from tests.engines.finding import ADDRESS, CENTER, Found
from tests.engines.keyspace import NAME, Keyspace
from timerd.demo.run import DemoSettings

pytestmark = [pytest.mark.engines, pytest.mark.process]
TASKS, SECONDS = 600, 8
QUICK = ("--set", "heartbeat=500ms", "--set", "lease_ttl=3s")
# A blizzard, and a day in nine seconds.
DAY, SPEED, LEAD_MS = date(2013, 2, 8), 10_000, 1_800_000


def test_the_demo_holds_on_three_instances_of_which_one_is_killed(
    cassandra_found: Found, keyspace: Keyspace, tmp_path: Path
) -> None:
    report = played(DemoSettings(TASKS, SECONDS, 1, tmp_path / "demo"), cassandra_found, NAME, *QUICK, quiet=True)
    assert {kind: cases for kind, cases in report.verdict.violations.items() if cases} == {}
    assert [figure for figure in report.figures if not figure.agrees] == []
    assert (report.verdict.scheduled, report.victim) == (TASKS, "timerd-1")
    assert report.down_ms > 0
    assert report.holds


def test_the_oracle_is_satisfied_with_a_day_of_flights_over_a_kill(
    flights_installed: None, cassandra_found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command finds the node of this session."""
    monkeypatch.setenv(ADDRESS, f"{cassandra_found.address}:{cassandra_found.port}")
    monkeypatch.setenv(CENTER, cassandra_found.datacenter)
    console = Console()
    assert replay(Wish(DAY, SPEED, LEAD_MS, tmp_path, cluster=True), console)
    verdict, _ = verdict_of(tmp_path)
    assert verdict.counts["flights"] == verdict.counts["reminders stored"] == 930
    # How many of them come in time is the machine's affair.
    assert verdict.counts["moves done"] + verdict.counts["moves too late"] > 0
    assert verdict.counts["cancelled"] + verdict.counts["cancels too late"] > 0
    assert verdict.counts["reminders fired"] > 0
    (crash,) = read_log(tmp_path / CRASHES, Crash)
    assert crash.back_ms > crash.killed_ms
