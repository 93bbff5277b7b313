"""A backfill, a fixed delay and a cycle over kill -9 of their server, judged by what its worker and callers wrote down.
The long form: python -m tests.process.recurring --kills 60."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.process.recurring.judging import Cycles, Handled, MemberCall, Unanswered, apart, lost, once_each, turns
from tests.process.recurring.run import Settings, run

KILLS = 3
CYCLES = Cycles(0.0, 10.0, 1, 3, frozenset("a"))
# Two turns of `a`, and one of `b`, which was removed after it.
TURNS = [
    Handled("a", "a1", 12.0, 12.0, 12.1),
    Handled("a", "a2", 22.0, 22.0, 22.1),
    Handled("b", "b1", 13.0, 13.0, 13.1),
]
CALLS = [MemberCall("b", True, 1.0, 1.1), MemberCall("b", False, 14.0, 14.2)]
POLLS = [Handled("m", "m1", 1.0, 1.0, 1.5), Handled("m", "m2", 2.6, 2.6, 3.0)]


@pytest.mark.process
@pytest.mark.timeout(400)
async def test_every_promise_holds_though_the_server_is_killed(tmp_path: Path) -> None:
    kills: list[int] = []
    verdict = await run(Settings(KILLS, instants=480, between_s=(0.3, 1.0)), tmp_path, kills.append)
    assert verdict.wrong == []
    assert kills == [1, 2, 3]
    assert verdict.backfilled >= 480
    # Two are enough to be apart: a busy machine starts a server slowly.
    assert verdict.delayed >= 2
    assert verdict.member_calls > 0
    assert verdict.cycles >= 1


def test_the_judge_finds_nothing_where_nothing_is_wrong() -> None:
    again = replace(TURNS[0], began_s=15.0, ended_s=15.1)
    assert turns([*TURNS, again], CALLS, CYCLES) == []
    assert once_each([Handled("x", "1", 0, 0, 0)] * 2, ["x"]) == []
    assert apart([*POLLS, replace(POLLS[0], began_s=1.52, ended_s=1.55)], 1.0) == []


@pytest.mark.parametrize(
    ("judged", "said"),
    [
        (lambda: once_each([], ["x"]), "x has no task"),
        (lambda: once_each([Handled("x", each, 0, 0, 0) for each in "12"], ["x"]), "x has 2 tasks"),
        (lambda: once_each([Handled("y", "1", 0, 0, 0)], []), "y is not of the span"),
        (lambda: apart([*POLLS, replace(POLLS[0], began_s=2.5, ended_s=2.7)], 1.0), "before the end of the one before"),
        (lambda: apart([POLLS[0], replace(POLLS[1], due_s=2.4)], 1.0), "was due 0.900 s after the end"),
        (lambda: turns(TURNS[1:], CALLS, CYCLES), "a has lost turn 1"),
        (lambda: turns([*TURNS, replace(TURNS[0], task_id="a9")], CALLS, CYCLES), "a had turn 1 2 times"),
        (lambda: turns([*TURNS, Handled("b", "b2", 23.0, 23.0, 23.1)], CALLS, CYCLES), "after the OK of its removal"),
    ],
)
def test_the_judge_finds_each_broken_promise(judged: Callable[[], list[str]], said: str) -> None:
    found = judged()
    assert len(found) >= 1
    assert said in found[0]


def test_a_put_that_was_not_answered_may_come_after_a_removal_until_the_server_is_killed() -> None:
    after, put = [*TURNS, Handled("b", "b2", 23.0, 23.0, 23.1)], [Unanswered("b", 13.5)]
    assert turns(after, CALLS, CYCLES, put) == []
    assert turns(after, CALLS, replace(CYCLES, away=[(13.6, 13.7)]), put) != []
    assert turns(after, CALLS, CYCLES, [Unanswered("a", 13.5)]) != []


def test_a_turn_is_excused_only_where_no_server_could_have_given_it_out() -> None:
    """It was due at 12, and its task expired at 22."""
    killed = replace(CYCLES, away=[(11.0, 17.0)])
    [turn] = lost(TURNS[1:], killed)
    assert (turn.key, turn.number, turn.from_s, turn.until_s) == ("a", 1, 12.0, 22.0)
    assert turns(TURNS[1:], CALLS, killed) == []
    overtaken = Handled("c", "c1", 15.0, 18.0, 18.1)
    assert turns([*TURNS[1:], overtaken], CALLS, killed) == ["a has lost turn 1"]
    # It was due before, so it is no sign; or the server was killed right after it.
    assert turns([*TURNS[1:], replace(overtaken, due_s=11.5)], CALLS, killed) == []
    assert turns([*TURNS[1:], overtaken], CALLS, replace(CYCLES, away=[(11.0, 17.0), (19.0, 23.0)])) == []
    assert turns(TURNS[1:], CALLS, replace(CYCLES, away=[(11.0, 12.0)])) == ["a has lost turn 1"]
    # A server that waits for a processor is late for all.
    assert turns(TURNS[1:], CALLS, replace(CYCLES, starved=[(14.0, 15.0)])) == []
    assert turns(TURNS[1:], CALLS, replace(CYCLES, starved=[(22.0, 23.0)])) == ["a has lost turn 1"]


def test_a_member_that_never_had_a_turn_has_lost_all_of_them() -> None:
    killed = replace(CYCLES, always=frozenset("z"), away=[(11.0, 17.0)])
    assert turns(TURNS, CALLS, killed) == ["z has lost turn 1", "z has lost turn 2"]
