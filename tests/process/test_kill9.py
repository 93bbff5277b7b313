"""Faults under load in the short form: nothing lost, early, after CANCELLED or twice without a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.process.kill9.judging import judged
from tests.process.kill9.run import Report, Settings, run
from timerd.demo.records import CallRecord, Confirmed, DeliveryRecord, Kill, Logs

pytestmark = pytest.mark.process
FAR_MS = 1_500


def played(settings: Settings) -> Report:
    said: list[str] = []
    report = run(settings, lambda event, _: said.append(event))
    verdict = report.judgement.verdict
    broken = {kind: sentences[:5] for kind, sentences in verdict.violations.items() if sentences}
    assert broken == {}, "\n".join((*said, *report.evidence))
    assert report.counted == settings.strikes, said
    assert verdict.duplicates == verdict.duplicates_explained
    return report


def test_ten_kills_under_load_break_no_promise(tmp_path: Path) -> None:
    report = played(Settings(strikes=10, tasks=3000, seed=1, folder=tmp_path, far_ms=FAR_MS))
    assert report.acknowledged >= 2_800
    assert report.judgement.verdict.cancelled > 0
    assert report.judgement.verdict.moved > 0


def test_stops_of_server_worker_and_client_under_load_break_no_promise(tmp_path: Path) -> None:
    """The worker stands still until its lease is over and what it had has gone to the other. At last the server, and
    one worker a little longer: it reads what was sent to it when the other's acks of the same have been confirmed.
    """
    faults = ("stop-server", "stop-worker", "stop-client", "stop-server-worker")
    report = played(Settings(strikes=4, tasks=900, seed=2, folder=tmp_path, faults=faults, far_ms=FAR_MS))
    assert report.judgement.verdict.duplicates > 0


def test_a_worker_that_dies_with_a_thousand_deliveries_in_hand_breaks_no_promise(tmp_path: Path) -> None:
    report = played(Settings(strikes=1, tasks=300, seed=3, folder=tmp_path, faults=("kill-worker",), far_ms=FAR_MS))
    assert report.strikes[-1].in_one_hand >= 1_000
    assert report.judgement.verdict.duplicates >= 100, "what it had is delivered again, but for what was on its way"


# -- the judge, on logs that were made up -----------------------------------------------------------------------------

SCHEDULED, CANCELLED = (
    CallRecord("schedule", 7, 0, 1, "OK", "t", 1000),
    CallRecord("cancel", 7, 1990, 2000, "CANCELLED", "t"),
)
READ = DeliveryRecord(7, "t", "d", 1, 1000, 2600.0)
STORY = Logs((SCHEDULED, CANCELLED), (READ,))
STOP = Kill(1500, 2700)


def is_excused(logs: Logs, stops: Sequence[Kill]) -> bool:
    judgement = judged(logs, stops, stops)
    assert judgement.verdict.holds is (judgement.read_late == 1)
    return judgement.verdict.holds


def test_a_worker_that_stood_still_may_read_late_what_was_sent_before_the_cancel() -> None:
    assert is_excused(STORY, [STOP])


@pytest.mark.parametrize("stops", [[], [Kill(1500, 2500)], [Kill(2100, 2700)]], ids=["none", "over", "later"])
def test_a_delivery_after_cancelled_has_no_other_excuse(stops: list[Kill]) -> None:
    assert not is_excused(STORY, stops)


def test_what_it_read_late_it_may_acknowledge_late() -> None:
    """The lease had ended, so CANCELLED was right; that it was done nevertheless is true as well."""
    assert is_excused(replace(STORY, confirmed=(Confirmed("d", 1, 2650.0),)), [STOP])


def test_a_stop_excuses_neither_an_early_delivery_nor_one_that_was_sent_after_cancelled() -> None:
    assert is_excused(replace(STORY, deliveries=(replace(READ, sent_after_ms=1999.0),)), [STOP])
    assert not is_excused(replace(STORY, deliveries=(replace(READ, sent_after_ms=2001.0),)), [STOP])
    early = CallRecord("schedule", 7, 0, 1, "OK", "t", 2601)
    assert not is_excused(
        replace(STORY, calls=(early, CANCELLED), deliveries=(replace(READ, fire_at_ms=2601),)), [STOP]
    )
