"""The oracle finds each kind of violation in made-up logs, and nothing in logs that are right."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from examples.departures import oracle
from examples.departures.logs import Call, LogWriter, Received, read_log, read_plan, write_plan
from examples.departures.oracle import Verdict, judge
from examples.departures.report import percentile, show
from tests.examples.flights_rig import CALLS, CALM, CAME, DELAYED, FLIGHTS, GATE, OFF, PLAN, call, came


def with_call(index: int, **changes: object) -> list[Call]:
    return [replace(each, **changes) if at == index else each for at, each in enumerate(CALLS)]  # type: ignore[arg-type]


def with_arrival(index: int, **changes: object) -> list[Received]:
    return [replace(each, **changes) if at == index else each for at, each in enumerate(CAME)]  # type: ignore[arg-type]


def verdict(calls: Sequence[Call] = CALLS, received: Sequence[Received] = CAME) -> Verdict:
    return judge(FLIGHTS, PLAN, calls, received)


def kinds(calls: Sequence[Call] = CALLS, received: Sequence[Received] = CAME) -> list[tuple[str, str]]:
    return [(each.kind, each.flight_id) for each in verdict(calls, received).violations]


def test_logs_that_are_right_hold_and_are_counted() -> None:
    right = verdict()
    assert right.holds, right.violations
    assert right.counts == {
        "flights": 4,
        "reminders stored": 4,
        "moves done": 2,
        "moves too late": 1,
        "cancelled": 0,
        "cancels too late": 1,
        "answers that never came": 0,
        "reminders fired": 4,
        "duplicates (same delivery_id)": 0,
    }
    assert right.lateness_ms == [0, 0.25, 0.5, 1]


def test_a_cancelled_reminder_need_not_come() -> None:
    cancelled = [*CALLS[:-1], call(OFF, "cancel", 960, "CANCELLED")]
    assert kinds(cancelled, CAME[:3]) == []
    assert verdict(cancelled, CAME[:3]).counts["cancelled"] == 1


def test_a_reminder_that_never_came_is_lost() -> None:
    assert kinds(received=CAME[1:]) == [(oracle.LOST, CALM)]


def test_one_that_was_refused_a_move_because_it_fired_must_have_come() -> None:
    assert kinds(received=[CAME[0], CAME[1], CAME[3]]) == [(oracle.LOST, GATE)]


def test_one_that_was_too_late_to_cancel_must_have_come() -> None:
    assert kinds(received=CAME[:3]) == [(oracle.LOST, OFF)]


def test_early_is_early_by_any_amount() -> None:
    assert kinds(received=with_arrival(0, received_ms=969.999)) == [(oracle.EARLY, CALM)]


def test_a_delivery_that_claims_an_earlier_time_is_early_and_not_at_its_time() -> None:
    found = kinds(received=with_arrival(0, fire_at_ms=960, received_ms=961))
    assert found == [(oracle.WRONG_TIME, CALM), (oracle.EARLY, CALM)]


def test_one_that_fires_at_the_time_it_was_moved_away_from() -> None:
    found = kinds(received=with_arrival(1, fire_at_ms=1030, received_ms=1061))
    assert found == [(oracle.WRONG_TIME, DELAYED)]


def test_one_that_fires_at_the_old_and_at_the_new_time() -> None:
    found = kinds(received=[*CAME, came(DELAYED, 970, 1100, "d-other")])
    assert found == [(oracle.WRONG_TIME, DELAYED), (oracle.TWICE, DELAYED)]


def test_the_same_delivery_again_is_counted_apart() -> None:
    again = verdict(received=[*CAME, came(CALM, 970, 990, attempt=2)])
    assert again.holds
    assert again.counts["duplicates (same delivery_id)"] == 1
    assert again.lateness_ms == [0, 0.25, 0.5, 1]


def test_one_that_comes_after_cancelled() -> None:
    found = kinds(with_call(7, asked_ms=960, answered_ms=961, outcome="CANCELLED"))
    assert found == [(oracle.AFTER_CANCELLED, OFF)]


def test_cancelled_is_untrue_where_the_worker_had_it() -> None:
    assert kinds(with_call(7, outcome="CANCELLED")) == [(oracle.WRONG_ANSWER, OFF)]


@pytest.mark.parametrize("outcome", ["NOT_FOUND", "FINISHED", "ALREADY_CANCELLED", "UNSPECIFIED"])
def test_answers_that_cannot_be_true_of_a_cancel(outcome: str) -> None:
    assert kinds(with_call(7, outcome=outcome)) == [(oracle.WRONG_ANSWER, OFF)]


def test_already_fired_is_untrue_before_the_reminder_was_due() -> None:
    assert kinds(with_call(7, answered_ms=969.9)) == [(oracle.WRONG_ANSWER, OFF)]
    assert kinds(with_call(6, answered_ms=969.9)) == [(oracle.WRONG_ANSWER, GATE)]


def test_a_move_refused_without_need_is_untrue() -> None:
    found = kinds(with_call(6, reason="ABORTED"))
    assert found == [(oracle.WRONG_ANSWER, GATE)]


def test_an_answer_with_another_time_than_was_asked_is_untrue() -> None:
    found = kinds(with_call(5, fire_at_ms=1061), with_arrival(1, fire_at_ms=1061, received_ms=1061))
    assert found == [(oracle.WRONG_ANSWER, DELAYED)]


def test_a_reminder_that_is_not_stored_is_a_violation_and_must_not_come() -> None:
    refused = with_call(0, outcome="REFUSED", reason="RESOURCE_EXHAUSTED", fire_at_ms=0)
    assert kinds(refused, CAME[1:]) == [(oracle.WRONG_ANSWER, CALM)]
    assert kinds(refused) == [(oracle.WRONG_ANSWER, CALM), (oracle.WRONG_TIME, CALM)]


def test_an_answer_that_never_came_leaves_both_possible() -> None:
    schedule, move, cancel = (with_call(index, outcome="UNKNOWN", fire_at_ms=0) for index in (0, 5, 7))
    assert kinds(schedule) == kinds(schedule, CAME[1:]) == []
    assert kinds(move) == kinds(move, with_arrival(1, fire_at_ms=1030)) == []
    assert kinds(cancel) == kinds(cancel, CAME[:3]) == []
    assert verdict(move).counts["answers that never came"] == 1


def test_an_unknown_answer_does_not_excuse_a_third_time() -> None:
    unknown = with_call(5, outcome="UNKNOWN", fire_at_ms=0)
    assert kinds(unknown, with_arrival(1, fire_at_ms=1045)) == [(oracle.WRONG_TIME, DELAYED)]


def test_pending_leaves_it_open() -> None:
    pending = with_call(7, outcome="PENDING")
    assert kinds(pending) == kinds(pending, CAME[:3]) == []


def test_another_task_id() -> None:
    assert kinds(received=with_arrival(0, task_id="id-other")) == [(oracle.WRONG_ID, CALM)]


def test_what_the_caller_left_out_or_asked_otherwise() -> None:
    assert kinds(CALLS[:7]) == [(oracle.NOT_ASKED, OFF)]
    assert kinds([], []) == [(oracle.NOT_ASKED, each.flight_id) for each in FLIGHTS]
    moved_elsewhere = with_call(5, asked_fire_at_ms=1059, fire_at_ms=1059)
    assert kinds(moved_elsewhere, with_arrival(1, fire_at_ms=1059)) == [(oracle.NOT_ASKED, DELAYED)]


def test_strangers() -> None:
    assert kinds([*CALLS, call("ghost", "schedule", 1, "OK", 5)]) == [(oracle.STRANGER, "ghost")]
    assert kinds(received=[*CAME, came("ghost", 5, 6)]) == [(oracle.STRANGER, "ghost")]


def test_logs_are_read_as_written_but_for_a_line_in_the_making(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = LogWriter(path)
    writer.write(CAME)
    writer.close()
    with path.open("a") as file:
        file.write('{"flight_id": "half')
    assert read_log(path, Received) == CAME
    assert read_log(tmp_path / "none", Call) == []
    write_plan(tmp_path, PLAN)
    assert read_plan(tmp_path) == PLAN


def test_the_report_says_what_was_found() -> None:
    console = Console(file=io.StringIO(), width=160)
    show(verdict(), "right", console)
    show(verdict(received=CAME[1:]), "wrong", console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Every flight was called exactly" in said
    assert "1 violations were found" in said
    assert f"{CALM}: its reminder for 970 never arrived" in said


def test_percentiles_cover_the_share() -> None:
    assert [percentile([1, 2, 3, 4], share) for share in (0.5, 0.99, 1.0)] == [2, 4, 4]
