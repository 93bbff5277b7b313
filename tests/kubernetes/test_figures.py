"""What is made of logs, and what is written of it, from logs that were made up."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kubernetes.crowd import Done
from tests.kubernetes.figures import Bounds, Load, figures
from tests.kubernetes.show import section
from timerd.demo.records import CallRecord, DeliveryRecord, Logs

BOUNDS = Bounds(p99_ms=1_000, duplicates=0)
CALLS = [CallRecord("schedule", 7, 0, 1, "OK", "t", 1_000), CallRecord("schedule", 8, 0, 1, "OK", "u", 2_000)]


def delivery(number: int, received_ms: float) -> DeliveryRecord:
    task, at = ("t", 1_000) if number == 7 else ("u", 2_000)
    return DeliveryRecord(number, task, f"d{number}", 1, at, received_ms)


def load(deliveries: Sequence[DeliveryRecord], *done: Done) -> Load:
    return Load(1, Logs(tuple(CALLS), tuple(deliveries)), done, 500, 2_500)


def test_what_came_in_time_and_once_holds() -> None:
    seen = figures("roll", load([delivery(7, 1_004), delivery(8, 2_900)], Done(7, 1_004, 6_004)), BOUNDS)
    assert seen.holds
    assert (seen.facts["p50_ms"], seen.facts["most_ms"]) == (900.0, 900.0)
    assert (seen.facts["slow"], seen.facts["beyond_grace"]) == (1, 0)


def test_what_was_lost_late_or_came_again_is_said() -> None:
    late_twice = [delivery(7, 2_001), delivery(7, 2_400)]
    broken = " ".join(figures("roll", load(late_twice), BOUNDS).broken)
    assert "never arrived" in broken
    assert "p99_ms is 1001, allowed is 1000" in broken
    assert "duplicates is 1, allowed is 0" in broken


def test_lateness_is_that_of_what_was_due_meanwhile() -> None:
    before = Load(1, Logs(tuple(CALLS), (delivery(7, 1_500), delivery(8, 2_010))), (), 1_600, 2_500)
    assert figures("roll", before, BOUNDS).facts["most_ms"] == 10.0


def test_a_page_says_what_did_not_hold() -> None:
    seen = figures("roll", load([delivery(7, 1_004)]), BOUNDS)
    page = section([{"commit": "abc", "machine": "1 node(s)", "note": "", **seen.record}])
    assert page.startswith("Commit abc; 1 node(s).\n")
    assert "| roll | 1 | 2.0 | 2 | 1 |" in page
    assert "**no** |" in page
    assert "never arrived" in page
