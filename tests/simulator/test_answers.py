"""What may be answered to a call that comes again."""

from __future__ import annotations

import pytest

from tests.simulator.answers import Answers, refusal
from tests.simulator.events import Called, Replied, Said, Verb
from timerd.core.protocol.keys import key_lost, of_this_try

STORED, LOST = "stored", refusal(key_lost())
LOST_BY_THIS_TRY = refusal(of_this_try(key_lost()))


def said(first: tuple[str, ...], began_ms: float, again: tuple[str, ...], ids: tuple[str, ...]) -> list[str]:
    """Of the try that began then and answers last; the first one was answered at 100."""
    names = tuple(f"m{n}" for n in range(len(first)))
    answers = Answers()
    call = Called(0, 1, Verb.SCHEDULE, "r", names)
    first_ids = tuple(f"id{n}" for n, answer in enumerate(first) if answer == STORED)
    assert not list(answers.compared(call, Replied(100, 1, Said.OK, first, first_ids)))
    call = Called(began_ms, 2, Verb.SCHEDULE, "r", names)
    return list(answers.compared(call, Replied(200, 2, Said.OK, again, ids)))


@pytest.mark.parametrize(
    ("began_ms", "again", "is_wrong"),
    [
        (50, LOST_BY_THIS_TRY, False),  # beside the other try, which stored it
        (101, LOST_BY_THIS_TRY, True),  # after that was answered, which it has to find
        (50, LOST, True),  # nothing is stored, it says
    ],
)
def test_who_runs_beside_the_try_that_stored_a_task_may_speak_of_itself(
    began_ms: float, again: str, is_wrong: bool
) -> None:
    assert bool(said((STORED,), began_ms, (again,), ())) is is_wrong
    assert bool(said((STORED, STORED), began_ms, (again, STORED), ("id1",))) is is_wrong


def test_of_the_other_tasks_it_says_the_same() -> None:
    assert said((STORED, STORED), 50, (LOST_BY_THIS_TRY, STORED), ("another",))
    assert said((STORED, STORED), 50, (LOST_BY_THIS_TRY, LOST), ())


def test_what_spoke_of_one_try_is_not_the_answer_of_the_call() -> None:
    answers = Answers()
    call = Called(0, 1, Verb.SCHEDULE, "r", ("m",))
    assert not list(answers.compared(call, Replied(1, 1, Said.OK, (LOST_BY_THIS_TRY,), ())))
    assert not list(answers.compared(call, Replied(2, 1, Said.OK, (STORED,), ("id",))))
    assert list(answers.compared(Called(3, 2, Verb.SCHEDULE, "r", ("m",)), Replied(4, 2, Said.OK, (LOST,), ())))
