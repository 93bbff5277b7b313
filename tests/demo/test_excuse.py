"""What the verdict on kill -9 excuses, and what it does not."""

from __future__ import annotations

from dataclasses import replace

from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.records import CallRecord, Confirmed, DeliveryRecord, Kill, Logs
from timerd.demo.verdict import judge

OLD, NEW = DeliveryRecord(7, "t", "d0", 1, 1000, 1003.0), DeliveryRecord(7, "t", "d1", 1, 3000, 3001.0)
SCHEDULE, MOVE = CallRecord("schedule", 7, 0, 1, "OK", "t", 1000), CallRecord("move", 7, 990, 2000, "OK", "t", 3000)
STORY = Logs((SCHEDULE, MOVE), (OLD, NEW), (), (Kill(1500, 1900),))


def test_a_delivery_before_a_crash_does_not_speak_against_the_move_after_it() -> None:
    assert forgotten_by_a_crash(STORY) == {OLD}
    assert not judge(STORY).holds
    assert judge(replace(STORY, deliveries=(NEW,))).holds


def test_a_move_whose_answer_nobody_heard_may_have_been_made_after_the_crash() -> None:
    unheard = replace(MOVE, answered_ms=1400, outcome="UNKNOWN")
    assert forgotten_by_a_crash(replace(STORY, calls=(SCHEDULE, unheard))) == {OLD}
    refused = replace(MOVE, outcome="HAS_FIRED")
    assert forgotten_by_a_crash(replace(STORY, calls=(SCHEDULE, refused))) == set()


def test_a_move_that_nobody_heard_of_and_that_was_not_made_leaves_the_delivery_as_it_is() -> None:
    unheard = replace(MOVE, answered_ms=1400, outcome="UNKNOWN")
    story = replace(STORY, calls=(SCHEDULE, unheard), deliveries=(OLD,))
    assert forgotten_by_a_crash(story) == set()
    assert judge(story).holds
    moved = replace(story, calls=(SCHEDULE, MOVE))
    assert judge(replace(moved, deliveries=())).violations["lost"]


def test_without_a_crash_between_the_two_it_does() -> None:
    assert forgotten_by_a_crash(replace(STORY, kills=())) == set()
    assert forgotten_by_a_crash(replace(STORY, kills=(Kill(2100, 2500),))) == set()
    assert forgotten_by_a_crash(replace(STORY, kills=(Kill(100, 500),))) == set()


def test_a_confirmed_or_early_delivery_is_never_excused() -> None:
    assert forgotten_by_a_crash(replace(STORY, confirmed=(Confirmed("d0", 1, 1010.0),))) == set()
    assert forgotten_by_a_crash(replace(STORY, deliveries=(replace(OLD, received_ms=999.9), NEW))) == set()


FIRST_MOVE, SECOND_MOVE = (
    CallRecord("move", 7, 100, 200, "OK", "t", 1000),
    CallRecord("move", 7, 990, 2000, "OK", "t", 3000),
)
MOVED_TWICE = replace(STORY, calls=(replace(SCHEDULE, fire_at_ms=600), FIRST_MOVE, SECOND_MOVE))


def test_a_delivery_at_the_time_of_the_first_of_two_moves_does_not_speak_against_the_second_after_the_crash() -> None:
    assert forgotten_by_a_crash(MOVED_TWICE) == {OLD}
    at_first = replace(OLD, fire_at_ms=600, received_ms=601.0)
    assert forgotten_by_a_crash(replace(MOVED_TWICE, deliveries=(at_first, NEW))) == set(), "moved before the crash"


def test_a_move_that_was_answered_before_the_crash_binds_whatever_came_before_it() -> None:
    """As if the repeat of the first move had undone the second."""
    undone = replace(MOVED_TWICE, calls=(*MOVED_TWICE.calls[:2], replace(SECOND_MOVE, answered_ms=995.0)))
    assert forgotten_by_a_crash(undone) == set()


def test_a_delivery_at_a_time_that_the_task_has_got_again_is_its_own() -> None:
    there, back = replace(MOVE, asked_ms=1, answered_ms=2), replace(MOVE, asked_ms=3, answered_ms=4, fire_at_ms=1000)
    story = replace(STORY, calls=(SCHEDULE, there, back), deliveries=(OLD,), kills=(Kill(0, 1900),))
    assert forgotten_by_a_crash(story) == set()
