"""Procedures about different tasks, side by side: what several of them ask at one time goes as one request.

Each takes its steps in its own order, and hears what it would hear by itself: no rule of the protocol is about the
steps of one task beside those of another. What is not known here to go together is asked one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic

from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    AskToEndEach,
    AskToMove,
    AskToMoveMany,
    Find,
    FindSettled,
    FindSettledEach,
    FindVacant,
    HintRows,
    LookAt,
    MarkAndLook,
    Procedure,
    ProcedureResult,
    ReadRegister,
    ReadRegisters,
    Recheck,
    Request,
    SetMarks,
    Together,
    TryCas,
    TryCasMany,
)
from timerd.model.storage import Look, Looked

# One request for many, then the answer of each from its answer.
Joined = tuple[Request, Callable[[Any], Sequence[object]]]


class RunningProcedure(Generic[ProcedureResult]):
    """One of the procedures. `request` None: it has come to its end."""

    def __init__(self, procedure: Procedure[ProcedureResult]) -> None:
        self._procedure = procedure
        self.request: Request | None = None
        self.ended: ProcedureResult | Exception | None = None
        self._go(lambda: next(procedure))

    def hear(self, answer: object) -> None:
        self._go(lambda: self._procedure.send(answer))

    def fail(self, error: Exception) -> None:
        self._go(lambda: self._procedure.throw(error))

    def _go(self, step: Callable[[], Request]) -> None:
        self.request = None
        try:
            self.request = step()
        except StopIteration as end:
            self.ended = end.value
        except Exception as error:  # noqa: BLE001 - it is for the caller to judge
            self.ended = error


def side_by_side(
    procedures: Sequence[Procedure[ProcedureResult]],
) -> Procedure[list[ProcedureResult | Exception | None]]:
    """What each returned or raised, in their order. A request that fails has failed for all who asked."""
    lanes = [RunningProcedure(each) for each in procedures]
    while waiting := [lane for lane in lanes if lane.request is not None]:
        for group in _groups(waiting):
            request, answers_of = joined([lane.request for lane in group if lane.request is not None])
            try:
                answers = answers_of((yield request))
            except Exception as error:  # noqa: BLE001 - for the procedures
                for lane in group:
                    lane.fail(error)
            else:
                for lane, answer in zip(group, answers, strict=True):
                    lane.hear(answer)
    return [lane.ended for lane in lanes]


def _groups(waiting: Sequence[RunningProcedure[ProcedureResult]]) -> Iterator[list[RunningProcedure[ProcedureResult]]]:
    """Those whose requests go together."""
    groups: dict[Hashable, list[RunningProcedure[ProcedureResult]]] = {}
    for lane in waiting:
        groups.setdefault(_what(lane), []).append(lane)
    yield from groups.values()


def _what(lane: RunningProcedure[ProcedureResult]) -> Hashable:
    """Of its request: equal where they go together."""
    match lane.request:
        case FindSettled(_, _, durable):
            return FindSettled, durable
        case Recheck(partition, _):
            return Recheck, partition
        case HintRows(may_repeat=may_repeat):
            return HintRows, may_repeat
        case request if type(request) in _JOINS:
            return type(request).__name__
        case _:
            return id(lane)


def joined(requests: Sequence[Any]) -> Joined:
    """Requests of one kind, which no rule puts in an order, as one."""
    if len(requests) == 1:
        return requests[0], lambda answer: [answer]
    return _JOINS[type(requests[0])](requests)


def _appends(requests: Sequence[AppendRows]) -> Joined:
    def answers(said: Sequence[object]) -> list[list[object]]:
        at = iter(said)
        return [[next(at) for _ in request.messages] for request in requests]

    return AppendRows([message for request in requests for message in request.messages]), answers


def _finds(requests: Sequence[Find]) -> Joined:
    def answers(found: Sequence[Sequence[object]]) -> list[object]:
        rows = {partition: iter(each) for partition, each in zip(keys, found, strict=True)}
        return [[next(rows[request.partition]) for _ in request.keys] for request in requests]

    keys: dict[Any, list[tuple[int, bytes]]] = {}
    for request in requests:
        keys.setdefault(request.partition, []).extend(request.keys)
    return _of_partitions([Find(*each) for each in keys.items()], answers)


def _endings(requests: Sequence[FindSettled]) -> Joined:
    def answers(found: Sequence[Sequence[object]]) -> list[object]:
        endings = {partition: iter(each) for partition, each in zip(keys, found, strict=True)}
        return [next(endings[request.partition]) for request in requests]

    keys: dict[Any, list[Any]] = {}
    for request in requests:
        keys.setdefault(request.partition, []).append(request.key)
    durable = requests[0].durable
    return _of_partitions([FindSettledEach(*each, durable) for each in keys.items()], answers)


def _of_partitions(
    requests: Sequence[Find | FindSettledEach], answers: Callable[[Sequence[Sequence[object]]], list[object]]
) -> Joined:
    if len(requests) == 1:
        return requests[0], lambda answer: answers([answer])
    return Together(requests), answers


def _marks(requests: Sequence[SetMarks]) -> Joined:
    """Whose were the first of their kind is known where all of them were."""
    marks = [mark for request in requests for mark in request.marks]

    def answers(fresh: int) -> list[int]:
        return [len(request.marks) if fresh == len(marks) else 0 for request in requests]

    return SetMarks(marks), answers


def _looks(requests: Sequence[LookAt]) -> Joined:
    looks = [request.look for request in requests]
    return LookAt(_one_look(looks)), lambda looked: _each_looked(looks, looked)


def _marks_and_looks(requests: Sequence[MarkAndLook]) -> Joined:
    looks = [request.look for request in requests]
    marks, fresh_of = _marks([SetMarks(request.marks) for request in requests])
    assert isinstance(marks, SetMarks)

    def answers(said: tuple[int, Looked]) -> list[object]:
        return list(zip(fresh_of(said[0]), _each_looked(looks, said[1]), strict=True))

    return MarkAndLook(marks.marks, _one_look(looks)), answers


def _one_look(looks: Sequence[Look]) -> Look:
    """A row, a task or a partition of several of them is asked for once for each."""
    return Look(
        [row for look in looks for row in look.rows],
        [task for look in looks for task in look.tasks],
        [*dict.fromkeys(partition for look in looks for partition in look.partitions)],
    )


def _each_looked(looks: Sequence[Look], looked: Looked) -> list[Looked]:
    bare = iter(looked.bare)
    return [
        Looked(
            [next(bare) for _ in look.rows],
            looked.moved & set(look.tasks),
            looked.settled & set(look.partitions),
        )
        for look in looks
    ]


def _vacant(requests: Sequence[FindVacant]) -> Joined:
    partitions = {partition: None for request in requests for partition in request.partitions}
    return FindVacant([*partitions]), lambda answer: [answer] * len(requests)


def _hints(requests: Sequence[HintRows]) -> Joined:
    rows = [row for request in requests for row in request.rows]
    controls = {partition: control for request in requests for partition, control in request.controls.items()}
    return HintRows(rows, controls, requests[0].may_repeat), lambda answer: [answer] * len(requests)


def _rechecks(requests: Sequence[Recheck]) -> Joined:
    digests = {digest: None for request in requests for digest in request.digests}
    return Recheck(requests[0].partition, [*digests]), lambda answer: [answer] * len(requests)


_JOINS: dict[type[Request], Callable[[Sequence[Any]], Joined]] = {
    AppendRows: _appends,
    AskToEnd: lambda requests: (AskToEndEach(requests), list),
    AskToMove: lambda requests: (AskToMoveMany(requests), list),
    Find: _finds,
    FindSettled: _endings,
    FindVacant: _vacant,
    HintRows: _hints,
    LookAt: _looks,
    MarkAndLook: _marks_and_looks,
    ReadRegister: lambda requests: (ReadRegisters([each.key for each in requests]), list),
    Recheck: _rechecks,
    SetMarks: _marks,
    TryCas: lambda requests: (TryCasMany([each.change for each in requests]), list),
}
