"""The hot second in its short form: 50,000 tasks for two slow workers, and another queue that waits for nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.hot_second.lateness import lateness
from tests.process.hot_second.run import HotSecond, Settings

pytestmark = pytest.mark.process
MEMORY_MB = 16
# Processor time, not time: a step that is long for each task of the second takes seconds.
STEP_CPU_MS = 100


async def test_a_hot_second_of_one_queue_holds_up_no_other(tmp_path: Path) -> None:
    settings = Settings(
        tasks=50_000,
        pace=10_000,
        other_rate=100,
        lead_s=0.5,
        window_s=1,
        ahead_s=3,
        memory_mb=MEMORY_MB,
        patience_s=60,
        folder=tmp_path,
    )
    report = await HotSecond(settings, lambda _: None).play()
    assert {kind: sentences[:5] for kind, sentences in report.broken.items() if sentences} == {}
    assert len(report.hot) == settings.tasks
    assert len(report.other) == 150
    assert report.counts.get("duplicates", 0) == 0
    # Behind the hot queue, they would come when its last task has gone out.
    last_other_ms = max(received_ms for _, received_ms in report.other)
    still_waiting = sum(received_ms > last_other_ms for _, received_ms in report.hot)
    assert still_waiting > settings.tasks // 10
    assert max(report.used_bytes) <= MEMORY_MB << 20
    assert report.largest_step_ms <= STEP_CPU_MS


def test_on_time_is_20_ms_or_three_times_what_it_was_before() -> None:
    """Late by 5 ms before the second, by 21 ms while its tasks are given out, by 900 ms when they are all out."""
    late = [(due, due + late_ms) for due, late_ms in [(0, 5.0), (100, 21.0), (300, 900.0)] for _ in range(10)]
    assert not lateness(late, 100, 200).is_on_time
    assert lateness(late, 100, 200).ratio == pytest.approx(4.2)
    assert lateness([(due, at - 1) for due, at in late], 100, 200).is_on_time
    assert lateness([(due, at + 2 + 2 * (due > 0)) for due, at in late], 100, 200).bound_ms == pytest.approx(21)
    assert not lateness(late, 100, 400).is_on_time
