"""A task that was marked in one place and carried to another: the end is durable there before it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from timerd.core import cancel
from timerd.core.cancel import Cancelled, end_task
from timerd.core.lookup import Located
from timerd.core.procedures import AskToEnd, Ending, Procedure, Request, SetMarks
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.rows import RowGroup, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Mark, MarkKind
from timerd.model.task import Extra, Template

TASK = TaskId(1_000, 0, 7, 0, b"p" * 12, 3, b"m" * 8)
PARTITION = Partition(0, 0, 0)
OLD, NEW = RowKey(1_000, TASK.digest, 0), RowKey(31_000, TASK.digest, 1)


def row(key: RowKey) -> RowGroup:
    return single_row(key, 1_000, Template("default", "q"), b"", Extra(), 0)


def told(monkeypatch: pytest.MonkeyPatch, marks: Sequence[Mark], ended: Outcome) -> tuple[list[Request], Cancelled]:
    """What `end_task` asks for and answers where the look-up says that the task has `ended` in its new place."""

    def locate(_: TaskId) -> Procedure[Located]:
        yield from ()
        return Located(Place(PARTITION, NEW), row(NEW), marks, Ending(ended), None, None)

    monkeypatch.setattr(cancel, "locate", locate)
    procedure, asked = end_task(TASK, Outcome.ACKED, b"late ack"), []
    try:
        asked.append(next(procedure))
        while True:
            asked.append(procedure.send(None))
    except StopIteration as end:
        return asked, end.value


def test_a_mark_on_the_place_that_it_was_carried_from_is_repeated_on_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Mark(PARTITION, OLD, MarkKind.ACKED, b"late ack")
    asked, answer = told(monkeypatch, [old], Outcome.ACKED)
    assert asked == [
        SetMarks([Mark(PARTITION, NEW, MarkKind.ACKED, b"late ack")]),
        AskToEnd(PARTITION, NEW, Outcome.ACKED, b"late ack"),
    ]
    assert answer is Cancelled.CANCELLED


def test_one_on_the_new_place_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Mark(PARTITION, NEW, MarkKind.ACKED, b"late ack")
    assert told(monkeypatch, [new], Outcome.ACKED) == ([], Cancelled.CANCELLED)


def test_an_end_without_a_mark_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, [], Outcome.ACKED) == ([], Cancelled.ALREADY_FIRED)
    assert told(monkeypatch, [], Outcome.DEAD) == ([], Cancelled.ALREADY_FIRED)
