"""The soak in its short form: a few kills in a few seconds; every promise holds, and what it shows is there."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.process.soak.__main__ import exit_code, table
from tests.process.soak.plot import draw
from tests.process.soak.run import Report, Settings, run
from tests.process.soak.samples import Sample, trend, write_csv

pytestmark = pytest.mark.process
PNG = b"\x89PNG"


def test_a_short_soak_breaks_no_promise_and_is_drawn(tmp_path: Path) -> None:
    settings = Settings(
        seconds=6,
        rate=200,
        kill_every_s=2,
        sample_every_s=0.5,
        warm_up_s=2,
        history="1m",
        seed=5,
        folder=tmp_path / "run",
    )
    settings.folder.mkdir()
    report = run(settings, lambda _: None)
    assert {kind: sentences[:5] for kind, sentences in report.broken.items() if sentences} == {}
    assert report.server_kills > 0
    assert report.counts["scheduled"] > 400
    assert report.counts["arrived"] >= report.counts["scheduled"] - report.counts["cancelled"] - 50
    assert report.counts["duplicates"] == report.counts["duplicates_explained"]
    assert all(each.pss_bytes and each.open_files and each.disk_bytes for each in report.samples)
    draw(report.samples, report.killed_s, settings.warm_up_s, "a short soak", tmp_path / "soak.png")
    assert (tmp_path / "soak.png").read_bytes().startswith(PNG)
    write_csv(report.samples, tmp_path / "soak.csv")
    with (tmp_path / "soak.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(report.samples)


def test_what_grows_after_the_warm_up_is_not_flat() -> None:
    sizes = [100.0, 200, 300, 300, 300, 300]
    assert trend([_sample(n * 60, size) for n, size in enumerate(sizes)], "pss_bytes", 120).is_flat
    growing = [100.0 * n for n in range(6)]
    assert not trend([_sample(n * 60, size) for n, size in enumerate(growing)], "pss_bytes", 120).is_flat


def test_who_falls_behind_is_told_from_who_breaks_a_promise(tmp_path: Path) -> None:
    report = Report(Settings(60, 1, 1, 1, 0, "1m", 1, tmp_path))
    report.counts = dict.fromkeys(("scheduled", "arrived", "confirmed"), 1)
    on_time, late = [_sample(n, 1) for n in range(1, 91)], [_sample(n, 1, late_ms=9_000) for n in range(91, 101)]
    report.samples = [*on_time, *late]
    assert exit_code(report) == 2
    assert any("FELL BEHIND in 10 of 100 samples" in line for line in table(report))
    report.samples = [*on_time, late[0]]
    assert exit_code(report) == 0, "a restart is not a fall-behind"
    report.outstanding = 5
    assert exit_code(report) == 2
    assert any("5 tasks were still coming" in line for line in table(report))
    report.broken = {"early": ["task 1 arrived 3 ms before its time"]}
    assert exit_code(report) == 1


def _sample(at_s: float, pss_bytes: float, late_ms: float = 0.0) -> Sample:
    return Sample(at_s, int(pss_bytes), 0, 0, 0, 0, 0, 0, 0, late_ms, late_ms, late_ms, 0)
