"""The judge, on logs that were made up: each broken promise is found, and what a promise allows is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from tests.chaos.recurring.judging import Verdict, judged
from tests.chaos.recurring.plan import Planned, every, instants, when
from tests.chaos.recurring.records import Begun, Call, Counts, Ended, Logs

S = 1_000
# A full minute.
START = 1_800_000_000_000 // 60_000 * 60_000
END = START + 60 * S
EACH = Planned("it", every(2))
APART = Planned("it", every(2), overlap="skip", hold_ms=(100, 200))
CREATED = Call("create", "it", 1, START, START + 200, seconds=every(2))


def at(seconds: float) -> int:
    return START + round(seconds * S)


def call(verb: str, since_s: float, **fields: object) -> Call:
    made = Call(verb, "it", 1, at(since_s), at(since_s) + 300, since_ms=at(since_s))
    return replace(made, **fields)  # type: ignore[arg-type]


def came(instant_s: int, version: int = 0, **fields: object) -> Begun:
    of = {"life": 1, "reason": "SCHEDULE", "task_id": f"{instant_s}.{version}", "delivery_id": "d", "attempt": 1}
    of |= {"instant_ms": at(instant_s), "fire_at_ms": at(instant_s), "at_ms": at(instant_s) + 5.0}
    return Begun(schedule_id="it", version=version, **{**of, **fields})  # type: ignore[arg-type]


def through(each: Begun, after_ms: int = 100) -> Ended:
    return Ended(each.task_id, each.attempt, each.at_ms + after_ms)


def judge(
    calls: Sequence[Call], begun: Sequence[Begun], ended: Iterable[Ended] | None = None, planned: Planned = EACH
) -> Verdict:
    ended = map(through, begun) if ended is None else ended
    return judged([planned], Logs((CREATED, *calls), tuple(begun), tuple(ended)), END)


def broken(verdict: Verdict) -> list[str]:
    """The promises that were."""
    return [promise.split(",")[0] for promise, sentences in verdict.wrong.items() if sentences]


PAUSED = call("pause", 10.5, counts=Counts(created=5))
ALL = [came(n) for n in (2, 4, 6, 8, 10)]


def test_what_comes_as_it_should_is_right() -> None:
    verdict = judge([PAUSED], ALL)
    assert verdict.holds, verdict.wrong
    assert verdict.occurrences == 5


def test_an_instant_that_never_came_is_lost() -> None:
    assert broken(judge([PAUSED], [ALL[0], *ALL[2:]])) == ["S1"]


def test_a_pause_that_counts_too_few_or_too_many_is_wrong() -> None:
    for created, missed in ((4, 0), (5, 2)):
        assert broken(judge([replace(PAUSED, counts=Counts(created, missed))], ALL)) == ["S1"]


def test_two_tasks_of_one_instant_are_one_too_many() -> None:
    assert broken(judge([PAUSED], [*ALL, came(4, task_id="another")])) == ["S2"]


def test_the_same_task_may_come_again() -> None:
    assert judge([PAUSED], [*ALL, replace(ALL[1], at_ms=at(9))]).holds


def test_after_an_update_nothing_of_the_old_version_fires() -> None:
    updated = call("update", 5, version=1, seconds=every(2))
    right = [came(2), came(4), came(6, 1), came(8, 1), came(10, 1)]
    assert judge([updated, PAUSED], right).holds
    assert broken(judge([updated, PAUSED], [came(2), came(4), came(6), *right[3:]])) == ["S3"]
    assert broken(judge([updated, PAUSED], [came(2), came(4, 1), *right[2:]])) == ["S3"]


def test_what_has_waited_for_the_end_of_another_one_may_be_of_the_update_that_came_meanwhile() -> None:
    """It is made when that one has ended, however short the wait was."""
    buffered = replace(APART, overlap="buffer_all")
    updated = call("update", 6.3, version=1, seconds=every(2))
    waited = came(6, 1, at_ms=at(6.4))
    rest = [came(2), came(4), came(8, 1), came(10, 1)]
    assert judge([updated, PAUSED], [*rest, waited], planned=buffered).holds
    assert broken(judge([updated, PAUSED], [*rest, replace(waited, at_ms=at(6.2))], planned=buffered)) == ["S3"]
    assert broken(judge([updated, PAUSED], [*rest, waited], planned=APART)) == ["S3"]


def test_what_had_started_before_an_update_has_its_task_of_the_old_version_and_no_other() -> None:
    updated = call("update", 5, version=1, seconds=every(2), taken=(at(6),))
    rest = [came(2), came(4), came(8, 1), came(10, 1)]
    assert judge([updated, PAUSED], [*rest, came(6)]).holds
    assert broken(judge([updated, PAUSED], [*rest, came(6, 1)])) == ["S3"]


def test_an_update_to_other_times_has_all_of_them_from_that_moment_on() -> None:
    updated = call("update", 5, version=1, seconds=every(3))
    paused = replace(PAUSED, counts=Counts(created=4))
    right = [came(2), came(4), came(6, 1), came(9, 1)]
    assert judge([updated, paused], right).holds
    assert broken(judge([updated, paused], [*right[:2], right[3]])) == ["S1"]
    assert broken(judge([updated, paused], [*right, came(8, 1)])) == ["S1", "S3"]


@pytest.mark.parametrize("verb", ["pause", "delete"])
def test_after_a_pause_or_a_delete_nothing_fires(verb: str) -> None:
    ended = call(verb, 10.5, counts=Counts(created=5))
    assert judge([ended], ALL).holds
    assert broken(judge([ended], [*ALL, came(12)])) == ["S3"]


def test_a_resume_goes_on_with_the_next_instant_or_with_all() -> None:
    paused, last = call("pause", 5, counts=Counts(created=2)), call("pause", 10.5, counts=Counts(created=3))
    resumed = call("resume", 9)
    assert judge([paused, resumed, last], [came(2), came(4), came(10)]).holds
    assert broken(judge([paused, resumed, last], [came(2), came(4), came(8), came(10)])) == ["S1", "S3"]
    with_missed = call("resume", 9, catch_up=True, since_ms=at(5))
    assert judge([paused, with_missed, PAUSED], ALL).holds
    assert broken(judge([paused, with_missed, PAUSED], [*ALL[:2], *ALL[3:]])) == ["S1"]


def test_an_instant_between_the_call_and_the_answer_of_a_creation_may_be_either() -> None:
    late = replace(CREATED, asked_ms=at(1), answered_ms=at(5))
    for first, created in ((0, 5), (2, 3)):
        logs = Logs((late, replace(PAUSED, counts=Counts(created))), tuple(ALL[first:]))
        assert judged([EACH], logs, END).holds


def test_what_fires_within_its_jitter_may_be_of_either_version_and_is_never_lost() -> None:
    """By when it fires."""
    planned = replace(EACH, jitter_ms=700)
    updated = call("update", 6.3, version=1, seconds=every(2))
    paused = replace(PAUSED, since_ms=at(11))
    rest = [came(2), came(4), came(8, 1), came(10, 1)]
    old, new = came(6, fire_at_ms=at(6.2), at_ms=at(6.3)), came(6, 1, fire_at_ms=at(6.4), at_ms=at(6.5))
    assert judge([updated, paused], [*rest, old], planned=planned).holds
    assert judge([updated, paused], [*rest, new], planned=planned).holds
    assert broken(judge([updated, paused], rest, planned=planned)) == ["S1"]
    assert broken(judge([updated, paused], [*rest, replace(new, version=0)], planned=planned)) == ["S3"]


def test_no_more_come_than_there_may_be_and_not_the_last_ones() -> None:
    planned = replace(EACH, max_count=3)
    paused = replace(PAUSED, counts=Counts(created=3))
    assert judge([paused], ALL[:3], planned=planned).holds
    assert broken(judge([paused], ALL[:4], planned=planned)) == ["S1"]
    assert broken(judge([paused], [*ALL[:2], ALL[3]], planned=planned)) == ["S1"]


def test_two_tasks_that_are_open_at_once_are_found() -> None:
    paused = replace(PAUSED, counts=Counts(created=4, skipped=1))
    some = [*ALL[:2], *ALL[3:]]
    assert judge([paused], some, planned=APART).holds
    ended = [through(each, 2_500 if each is some[0] else 100) for each in some]
    assert broken(judge([paused], some, ended, planned=APART)) == ["S5"]


def test_a_task_is_open_over_all_of_its_attempts() -> None:
    paused = replace(PAUSED, counts=Counts(created=4, skipped=1))
    some = [*ALL[:2], *ALL[3:]]
    again = replace(some[0], attempt=2, at_ms=at(2.9))
    later = replace(again, at_ms=at(4.5))
    assert judge([paused], [*some, again], [through(again), *map(through, some[1:])], planned=APART).holds
    assert broken(judge([paused], [*some, later], [through(later), *map(through, some[1:])], planned=APART)) == ["S5"]


def test_what_a_stale_holder_sends_again_is_known_by_its_token() -> None:
    paused = replace(PAUSED, counts=Counts(created=4, skipped=1))
    some = [replace(each, scope="0", token=7) for each in (*ALL[:2], *ALL[3:])]
    again = replace(some[0], at_ms=at(4.5))
    assert broken(judge([paused], [*some, again], planned=APART)) == ["S5"]
    assert judge([paused], [*some, replace(again, token=6)], planned=APART).holds


def test_a_task_that_was_created_and_never_came_is_missed_in_the_counts() -> None:
    paused = replace(PAUSED, counts=Counts(created=5))
    assert broken(judge([paused], ALL[1:], planned=APART)) == ["S1"]


def test_a_trigger_comes_and_nobody_else_asks_for_one() -> None:
    told = call("trigger", 5, task_id="now")
    task = came(5, task_id="now", reason="TRIGGER")
    assert judge([told, PAUSED], [*ALL, task]).holds
    assert broken(judge([told, PAUSED], ALL)) == ["triggers"]
    assert broken(judge([PAUSED], [*ALL, task])) == ["triggers"]


def test_a_refused_call_and_a_repeat_that_is_answered_otherwise_are_wrong() -> None:
    assert broken(judge([PAUSED, call("update", 12, outcome="NOT_FOUND: no")], ALL)) == ["answers"]
    assert broken(judge([PAUSED, call("repeat of PauseSchedule", 12, said_again="no")], ALL)) == ["answers"]
    assert judge([PAUSED, call("trigger", 12, outcome="FAILED_PRECONDITION: one is open")], ALL).holds


def test_what_comes_before_its_time_is_early() -> None:
    assert broken(judge([PAUSED], [*ALL[1:], replace(ALL[0], at_ms=at(1.9))])) == ["G4"]


def test_a_schedule_that_nobody_created_has_no_tasks() -> None:
    assert broken(judge([PAUSED], [*ALL, replace(came(12), life=2)])) == ["S3"]


def test_a_plan_says_its_seconds_as_a_period_or_as_a_cron_expression() -> None:
    assert when(every(5), 0) == {"every": 5}
    assert when((3, 40), 700) == {"cron": "3,40 * * * * *", "jitter": 0.7}
    assert list(instants((0, 30), at(0), at(60))) == [at(30), at(60)]
