"""Faults under load in the short form: nothing lost, early, after CANCELLED or twice without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.kill9.run import Report, Settings, run

pytestmark = pytest.mark.process
FAR_MS = 1_500


def played(settings: Settings) -> Report:
    said: list[str] = []
    report = run(settings, lambda event, _: said.append(event))
    verdict = report.judgement.verdict
    broken = {kind: sentences[:5] for kind, sentences in verdict.violations.items() if sentences}
    assert broken == {}, said
    assert report.counted == settings.strikes, said
    assert verdict.duplicates == verdict.duplicates_explained
    return report


def test_ten_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    report = played(Settings(strikes=10, tasks=3000, seed=1, folder=tmp_path, far_ms=FAR_MS))
    assert report.acknowledged >= 2_800
    assert report.judgement.verdict.cancelled > 0
    assert report.judgement.verdict.moved > 0
