"""What is written about rounds, from rows that were made up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos import show
from tests.chaos.faults import Hit
from tests.chaos.ring import false_answers
from tests.chaos.series import runs

ROUND: dict[str, Any] = {
    "fault": "kill",
    "counts": True,
    "unacknowledged": 140,
    "unanswered": 30,
    "trace": {"take-overs": 3},
    "lasted_ms": 9_000,
    "recovered_ms": 12_000,
    "duplicates": 7,
    "allowed": 900,
}
RUN: dict[str, Any] = {
    "holds": True,
    "seed": 4,
    "commit": "abc",
    "nodes": 1,
    "ttl_ms": 4_000,
    "counted": 2,
    "rounds": 3,
    "acknowledged": 2_000,
    "written_again": 5,
    "stuck": "",
}


def test_a_fault_is_one_line_with_the_least_and_the_worst_of_its_rounds() -> None:
    other = ROUND | {"unacknowledged": 120, "recovered_ms": 20_000, "duplicates": 9, "allowed": 800}
    not_counted = ROUND | {"counts": False, "unanswered": 0}
    [*_, line] = show.table([ROUND, other, not_counted])
    assert line == "| kill | 2 | 120, 30 | 3 take-overs | 9.0 to 9.0 | 16.0, 20.0 | 9, 800 |"


@pytest.mark.parametrize(("broken", "says"), [({}, "every promise held"), ({"lost": 2}, "2 lost")])
def test_a_run_says_what_did_not_hold(broken: dict[str, int], says: str) -> None:
    sentence = show.verdict(RUN | broken)
    assert says in sentence
    assert "2 of 3 rounds count" in sentence


def test_without_a_majority_ok_is_false_and_silence_is_a_hang() -> None:
    hit = Hit(0, 1, (), answers=[("UNAVAILABLE", 20.0), ("OK", 30.0), ("DEADLINE_EXCEEDED", 10_000.0)])
    assert len(false_answers("two-nodes", hit)) == 2
    assert false_answers("node", hit) == []


def test_a_series_has_so_many_rounds_one_in_six_on_three_nodes() -> None:
    rounds = {"1": 0, "3": 0}
    for options in runs(100):
        rounds[options[1]] += int(options[5])
    assert rounds == {"1": 84, "3": 16}
