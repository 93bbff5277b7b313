"""A cancel of many where nobody holds the partition: one answer for all rows, but not where something else is known."""

from __future__ import annotations

import pytest

from timerd.core.protocol import cancel_many
from timerd.core.protocol.cancel import Cancelled
from timerd.core.protocol.cancel_many import EndedMany, end_many
from timerd.core.protocol.procedures import (
    AskToEndMany,
    Ending,
    FindSettledMany,
    FindVacant,
    HolderAnswer,
    MarkAndLook,
    Procedure,
    Together,
    Vacant,
)
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.rows import empty_group
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Looked, Mark, MarkKind

HOME = Partition(0, 300_000, 2)
MINE, THEIRS = b"mine", b"theirs"
TASKS = [TaskId(HOME.bucket_ms + ms, HOME.shard, 7, 0, b"p" * 12, ms, b"m" * 8) for ms in range(3)]
KEYS = [RowKey(task.position_ms, task.digest, 0) for task in TASKS]
VACANT = Vacant(frozenset([HOME]), 1)
TAKEN_MEANWHILE = Vacant(frozenset(), 2)
NOTHING_KNOWN = Looked([], frozenset())


@pytest.fixture(autouse=True, params=[1, 16], ids=["columns", "few"])
def columns_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows are columns as thousands are, or few, which go without."""
    monkeypatch.setattr(cancel_many, "COLUMNS_FROM", request.param)


class World:
    """Three rows that wait, of a partition that nobody holds. `first`: whose mark each has afterwards; `endings`:
    what was settled by then, where somebody took the partition meanwhile."""

    def __init__(self, first: list[bytes], endings: list[Ending] | None = None) -> None:
        self.marked: list[Mark] = []
        self._first = first
        self._endings = endings

    def answer(self, request: object) -> object:
        match request:
            case FindVacant():
                return TAKEN_MEANWHILE if self.marked and self._endings else VACANT
            case MarkAndLook(marks, _):
                self.marked = list(marks)
                return self._first.count(MINE), NOTHING_KNOWN
            case AskToEndMany(_, keys):
                return [HolderAnswer(None)] * len(keys)
            case Together(requests):
                return [self._together(each) for each in requests]
        raise AssertionError(request)

    def _together(self, request: object) -> object:
        if isinstance(request, FindSettledMany):
            return self._endings
        if not self.marked:
            return Looked([[True] * len(KEYS)], frozenset())
        marks = [Mark(HOME, key, MarkKind.CANCELLED, whose) for key, whose in zip(KEYS, self._first, strict=True)]
        return [Found(empty_group(), [mark]) for mark in marks]

    def run(self, procedure: Procedure[EndedMany]) -> EndedMany:
        try:
            request = next(procedure)
            while True:
                request = procedure.send(self.answer(request))
        except StopIteration as done:
            ended: EndedMany = done.value
            return ended


def test_all_are_marked_and_cancelled() -> None:
    world = World([MINE] * 3)
    assert world.run(end_many(TASKS, Outcome.CANCELLED, MINE)).said == [Cancelled.CANCELLED] * 3
    assert world.marked == [Mark(HOME, key, MarkKind.CANCELLED, MINE) for key in KEYS]
    assert all(type(mark) is Mark and type(mark.key) is RowKey for mark in world.marked)


@pytest.mark.parametrize("theirs", range(3))
def test_what_another_call_marked_first_is_its_own(theirs: int) -> None:
    first = [THEIRS if at == theirs else MINE for at in range(3)]
    said = World(first).run(end_many(TASKS, Outcome.CANCELLED, MINE)).said
    assert said == [Cancelled.ALREADY_CANCELLED if whose == THEIRS else Cancelled.CANCELLED for whose in first]


@pytest.mark.parametrize("ended", range(3))
def test_what_ended_while_it_was_marked_goes_the_long_way(ended: int) -> None:
    endings = [Ending(Outcome.ACKED if at == ended else None) for at in range(3)]
    said, marked = World([MINE] * 3, endings).run(end_many(TASKS, Outcome.CANCELLED, MINE))
    assert said == [None if at == ended else Cancelled.CANCELLED for at in range(3)]
    assert marked == {TASKS[ended].digest}
