"""Who shares the slots: what is asked of each, and what is said of the waits."""

from __future__ import annotations

import pytest

from benchmarks.sharing.cases import CASES, SLOTS, Case, Job
from benchmarks.sharing.waits import Waits, shown

TWO = Case("two", "two", "loud", [Job("loud", 0.0, 1.0), Job("calm", 1.0, 1.0), Job("calm", 2.0, 1.0)], 10.0)


@pytest.mark.parametrize("name", CASES)
def test_the_culprit_alone_takes_all_slots_for_longer_than_the_others_come(name: str) -> None:
    case = CASES[name]()
    last_s = max(case.jobs[place].due_s for place in case.others)
    assert sum(job.takes_s for job in case.jobs if job.customer == case.culprit) >= SLOTS * last_s
    others_s = sum(case.jobs[place].takes_s for place in case.others)
    assert others_s < SLOTS * last_s / 2, "without the culprit nobody would wait"


def test_waits_are_those_of_everybody_but_the_culprit() -> None:
    waits = Waits.of(TWO, {0: 0.1, 1: 1.5, 2: 2.0})
    assert waits.waited_s == [0.5, 0.0]
    assert (waits.unstarted, waits.culprits) == (0, 1)


def test_what_has_not_started_has_waited_until_the_end_and_is_counted() -> None:
    waits = Waits.of(TWO, {1: 1.0})
    assert waits.waited_s == [0.0, 8.0]
    assert (waits.unstarted, waits.culprits) == (1, 0)
    assert waits.cells == ("4.0 s", "8.0 s", "1", "0")


def test_a_wait_is_said_in_the_unit_that_fits() -> None:
    assert (shown(0.0123), shown(12.34)) == ("12 ms", "12.3 s")
