"""The verdict finds each violation in made-up logs, and nothing in logs of a run as promised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.demo.made import Made, as_promised
from timerd.demo.verdict import Verdict


def found(verdict: Verdict) -> dict[str, int]:
    return {kind: len(cases) for kind, cases in verdict.violations.items() if cases}


def test_a_run_as_promised_is_counted() -> None:
    verdict = as_promised().verdict()
    assert (verdict.holds, found(verdict)) == (True, {})
    counts = (verdict.scheduled, verdict.cancelled, verdict.moved, verdict.fired, verdict.acked, verdict.duplicates)
    assert counts == (5, 1, 1, 4, 4, 0)


def early(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000, late=-0.001)


def earlier_than_its_new_time(made: Made) -> None:
    made.schedule(9, 2000)
    made.move(9, 4000)
    made.deliver(9, 4000, late=-500)


def at_its_old_time(made: Made) -> None:
    made.schedule(9, 2000)
    made.move(9, 4000)
    made.deliver(9, 2000)


def lost(made: Made) -> None:
    made.schedule(9, 2000)


def lost_though_it_was_said_to_have_fired(made: Made) -> None:
    made.schedule(9, 2000)
    made.cancel(9, "ALREADY_FIRED")


def after_cancelled(made: Made) -> None:
    made.schedule(9, 2000)
    made.cancel(9, "CANCELLED")
    made.deliver(9, 2000)


def before_cancelled_without_a_crash(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.cancel(9, "CANCELLED", asked=2500, answered=2510)


def again_after_a_confirmed_ack(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.deliver(9, 2000, late=4500)


def sent_again_after_a_confirmed_ack(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.deliver(9, 2000, late=4500, sent=2005)


def fired_twice(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.deliver(9, 2000, delivery="another")


def other_task_id(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.deliveries[-1] = replace(made.deliveries[-1], task_id="T10")


def nobody_asked(made: Made) -> None:
    made.deliver(9, 2000)


def refused_and_yet_delivered(made: Made) -> None:
    made.schedule(9, 2000, outcome="RESOURCE_EXHAUSTED")
    made.deliver(9, 2000)


def forgotten(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.cancel(9, "NOT_FOUND")


def refused_move(made: Made) -> None:
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.move(9, 4000, outcome="NOT_FOUND")


@pytest.mark.parametrize(
    ("spoil", "violations"),
    [
        (early, {"early": 1}),
        (earlier_than_its_new_time, {"early": 1}),
        (at_its_old_time, {"early": 1, "wrong facts": 1}),
        (lost, {"lost": 1}),
        (lost_though_it_was_said_to_have_fired, {"lost": 1}),
        (after_cancelled, {"delivered after CANCELLED": 1, "acked and CANCELLED": 1}),
        (before_cancelled_without_a_crash, {"delivered after CANCELLED": 1, "acked and CANCELLED": 1}),
        (again_after_a_confirmed_ack, {"unexplained duplicates": 1}),
        (sent_again_after_a_confirmed_ack, {"unexplained duplicates": 1}),
        (fired_twice, {"fired twice": 1}),
        (other_task_id, {"wrong facts": 1}),
        (nobody_asked, {"wrong facts": 1}),
        (refused_and_yet_delivered, {"wrong facts": 1}),
        (forgotten, {"wrong answers": 1}),
        (refused_move, {"wrong answers": 1}),
    ],
)
def test_each_violation_is_found(spoil: Callable[[Made], None], violations: dict[str, int]) -> None:
    made = as_promised()
    spoil(made)
    verdict = made.verdict()
    assert found(verdict) == violations
    assert not verdict.holds


def again_without_a_confirmed_ack(made: Made) -> None:
    made.schedule(9, 4900)
    made.deliver(9, 4900, acked=False)
    made.deliver(9, 4900, late=1300)


def read_late_by_another_worker(made: Made) -> None:
    """The ack of the one is confirmed at 2004.5; what the other reads at 6500 was sent after 2004, perhaps at once."""
    made.schedule(9, 2000)
    made.deliver(9, 2000)
    made.deliver(9, 2000, late=4500, acked=False, sent=2004)


def unanswered_and_delivered(made: Made) -> None:
    made.schedule(9, 4000, outcome="UNKNOWN")
    made.deliver(9, 4000)


def unanswered_and_not_delivered(made: Made) -> None:
    made.schedule(9, 4000, outcome="UNKNOWN")


def moved_without_an_answer(made: Made) -> None:
    for number, fire in ((9, 2000), (10, 4000)):
        made.schedule(number, 2000)
        made.move(number, 4000, outcome="UNKNOWN")
        made.deliver(number, fire)


def too_late_to_move(made: Made) -> None:
    made.schedule(9, 2000)
    made.move(9, 4000, outcome="FAILED_PRECONDITION", asked=2100)
    made.deliver(9, 2000)


def cancelled_in_flight(made: Made) -> None:
    made.schedule(9, 2000)
    made.cancel(9, "IN_FLIGHT")


def crash_between_delivery_and_cancelled(made: Made) -> None:
    made.schedule(9, 4990)
    made.deliver(9, 4990, acked=False)
    made.cancel(9, "CANCELLED", asked=4980, answered=6100)


@pytest.mark.parametrize(
    "allow",
    [
        again_without_a_confirmed_ack,
        read_late_by_another_worker,
        unanswered_and_delivered,
        unanswered_and_not_delivered,
        moved_without_an_answer,
        too_late_to_move,
        cancelled_in_flight,
        crash_between_delivery_and_cancelled,
    ],
)
def test_what_is_promised_is_no_violation(allow: Callable[[Made], None]) -> None:
    made = as_promised()
    allow(made)
    assert found(made.verdict()) == {}


def test_duplicates_are_counted_with_their_explanation() -> None:
    made = as_promised()
    again_without_a_confirmed_ack(made)
    made.deliver(1, 1000, late=4000)
    verdict = made.verdict()
    assert (verdict.duplicates, verdict.duplicates_explained) == (2, 1)


def test_lateness_is_told_apart_by_the_kill() -> None:
    made = Made()
    for number, (fire, late) in enumerate([(1000, 1), (2000, 3), (4990, 1100), (5500, 600), (7000, 2)]):
        made.schedule(number, fire)
        made.deliver(number, fire, late=late)
    # Asked for 300 ms after its own time: late by what came after that.
    made.schedule(7, 7000, asked=7300)
    made.deliver(7, 7000, late=304)
    lateness = made.verdict().lateness
    assert {name: (each.count, each.p50_ms, each.max_ms) for name, each in lateness.items()} == {
        "before the kill": (2, 3, 3),
        "due while it was down": (2, 1100, 1100),
        "after the restart": (2, 4, 4),
    }
