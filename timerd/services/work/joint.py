"""One confirmation for one settle of a worker, whose deliveries are of several instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from timerd.services.work.desk import Outlet
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.task_pb2 import Problem

# FAILED_PRECONDITION: it cannot be settled any more.
NOT_SETTLED = 9


class Joint:
    """`parts`: how many answers make it whole."""

    def __init__(self, stream: Outlet, sequence: int, parts: int) -> None:
        self._stream = stream
        self._sequence = sequence
        self._missing = parts
        self._refused: list[int] = []
        self._problem: Problem | None = None
        stream.owe()

    def answer(self, rows: Sequence[int], refused: Iterable[int], problem: Problem | None) -> None:
        """Of one part: `rows` are its places in the worker's message."""
        self._refused += [rows[at] for at in refused]
        # What may pass is said first: the worker then repeats all of them, and hears of the others again.
        if problem is not None and (self._problem is None or self._problem.code == NOT_SETTLED):
            self._problem = problem
        self._missing -= 1
        if not self._missing:
            confirmed = pb.SettleConfirmed(sequence=self._sequence, refused=sorted(self._refused))
            if self._problem is not None:
                confirmed.problem.CopyFrom(self._problem)
            self._stream.confirm(confirmed)


class OwnPart:
    """An outlet for the part that this instance settles itself."""

    def __init__(self, joint: Joint, number: int, rows: Sequence[int]) -> None:
        self.number = number
        self.closing = False
        self._joint = joint
        self._rows = rows

    def push(self, response: pb.WorkResponse, size_bytes: int = 0) -> None:
        """Nothing is delivered by way of a confirmation."""

    def block_if_full(self) -> bool:
        return False

    def owe(self) -> None:
        """The whole is owed already."""

    def confirm(self, confirmed: pb.SettleConfirmed) -> None:
        self._joint.answer(self._rows, confirmed.refused, confirmed.problem if confirmed.HasField("problem") else None)
