"""kill -9 in the short form: 3 kills under load, nothing lost, early, after CANCELLED or twice without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.kill9.run import Settings, run

pytestmark = pytest.mark.process


def test_three_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    said: list[str] = []
    report = run(Settings(kills=3, tasks=1000, seed=1, folder=tmp_path), said.append)
    broken = {kind: sentences[:5] for kind, sentences in report.verdict.violations.items() if sentences}
    assert broken == {}, said
    assert report.counted == 3, said
    verdict = report.verdict
    assert verdict.scheduled >= 1000
    assert verdict.cancelled > 0
    assert verdict.moved > 0
    assert verdict.duplicates == verdict.duplicates_explained
