"""A task that has ended: the end is durable where it lives, and known to who holds that, before it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from timerd.core.partition.holding import Asked
from timerd.core.protocol import cancel
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.core.protocol.lookup import Located
from timerd.core.protocol.procedures import (
    AskInHand,
    AskToEnd,
    Ending,
    Find,
    FindSettled,
    HolderAnswer,
    Procedure,
    Request,
    SetMarks,
)
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.rows import RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark, MarkKind
from timerd.model.task import Extra, Template

TASK = TaskId(1_000, 0, 7, 0, b"p" * 12, 3, b"m" * 8)
PARTITION = Partition(0, 0, 0)
OLD, NEW = RowKey(1_000, TASK.digest, 0), RowKey(31_000, TASK.digest, 1)
ASK = AskToEnd(PARTITION, NEW, Outcome.ACKED, b"late ack")
LOOK = FindSettled(PARTITION, NEW)
NOBODY = HolderAnswer(None)


def row(key: RowKey) -> RowGroup:
    return single_row(key, 1_000, Template("default", "q"), b"", Extra(), 0)


def told(
    monkeypatch: pytest.MonkeyPatch, marks: Sequence[Mark], ended: Outcome, holder: HolderAnswer = NOBODY
) -> tuple[list[Request], Cancelled]:
    """What `end_task` asks for and answers where the look-up says that the task has `ended` in its new place."""

    def locate(_: TaskId) -> Procedure[Located]:
        yield from ()
        return Located(Place(PARTITION, NEW), row(NEW), marks, Ending(ended), None, None)

    monkeypatch.setattr(cancel, "locate", locate)
    answers = {AskToEnd: holder, FindSettled: Ending(ended), SetMarks: None}
    procedure, asked = end_task(TASK, Outcome.ACKED, b"late ack"), []
    try:
        asked.append(next(procedure))
        while True:
            asked.append(procedure.send(answers[type(asked[-1])]))
    except StopIteration as end:
        return asked, end.value


def test_a_mark_on_the_place_that_it_was_carried_from_is_repeated_on_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Mark(PARTITION, OLD, MarkKind.ACKED, b"late ack")
    asked, answer = told(monkeypatch, [old], Outcome.ACKED)
    assert asked[:2] == [SetMarks([Mark(PARTITION, NEW, MarkKind.ACKED, b"late ack")]), ASK]
    assert answer is Cancelled.CANCELLED


def test_one_on_the_new_place_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Mark(PARTITION, NEW, MarkKind.ACKED, b"late ack")
    assert told(monkeypatch, [new], Outcome.ACKED) == ([ASK, LOOK], Cancelled.CANCELLED)


def test_an_end_without_a_mark_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, [], Outcome.ACKED) == ([ASK, LOOK], Cancelled.ALREADY_FIRED)
    assert told(monkeypatch, [], Outcome.DEAD) == ([ASK, LOOK], Cancelled.ALREADY_FIRED)


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        (HolderAnswer(Asked.WAITING, None, b"late ack"), Cancelled.CANCELLED),
        (HolderAnswer(Asked.OPEN), Cancelled.IN_FLIGHT),
        (HolderAnswer(Asked.SILENT), Cancelled.PENDING),
        (HolderAnswer(Asked.ENDED, Outcome.ACKED), Cancelled.ALREADY_FIRED),
    ],
)
def test_a_record_of_which_the_holder_may_not_know_is_told_to_it(
    monkeypatch: pytest.MonkeyPatch, known: HolderAnswer, answer: Cancelled
) -> None:
    """It may have come from the last one, who did not know yet that there is another: then the row still waits."""
    assert told(monkeypatch, [], Outcome.ACKED, known) == ([ASK], answer)


def played(procedure: Procedure[Cancelled], answers: Mapping[type, object]) -> Cancelled:
    """The answers are by the kind of request."""
    try:
        request = next(procedure)
        while True:
            request = procedure.send(answers[type(request)])
    except StopIteration as end:
        answer: Cancelled = end.value
        return answer


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Outcome.ACKED, Cancelled.ALREADY_FIRED),
        (Outcome.DEAD, Cancelled.ALREADY_FIRED),
        (Outcome.PURGED, Cancelled.ALREADY_CANCELLED),
        (Outcome.CANCELLED, Cancelled.CANCELLED),
    ],
)
def test_a_mark_on_a_place_that_it_left_says_nothing_of_an_end_of_another_kind(
    monkeypatch: pytest.MonkeyPatch, ended: Outcome, said: Cancelled
) -> None:
    """The cancel has marked its old place; it was carried on meanwhile, and a worker ended it in the new one."""
    mark = Mark(PARTITION, OLD, MarkKind.CANCELLED, b"r")
    places = iter([Located(Place(PARTITION, OLD), row(OLD), [], Ending(None), None, None)])
    over = Located(Place(PARTITION, NEW), row(NEW), [], Ending(ended), None, None)

    def locate(_: TaskId) -> Procedure[Located]:
        yield from ()
        return next(places, over)

    monkeypatch.setattr(cancel, "locate", locate)
    procedure = end_task(TASK, Outcome.CANCELLED, b"r")
    answers = {SetMarks: None, Find: [Found(row(OLD), [mark])], AskInHand: False}
    assert played(procedure, answers) is said
