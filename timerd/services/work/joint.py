"""One confirmation for one settle of a worker, whose deliveries are of several instances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

from timerd.services.dispatch.ports import Confirmation
from timerd.services.work.confirm_wire import NOT_SETTLED, confirmed_of
from timerd.services.work.work_stream import WorkStream
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.task_pb2 import TASK_STATE_UNSPECIFIED, Problem, TaskState


class Joint:
    """`parts`: how many answers make it whole."""

    def __init__(self, stream: WorkStream, sequence: int, parts: int, tokens: int) -> None:
        self._stream = stream
        self._sequence = sequence
        self._missing = parts
        self._tokens = tokens
        # Place in the message -> what its task is.
        self._refused: dict[int, TaskState] = {}
        self._problem: Problem | None = None
        stream.owe(tokens)

    def answer(
        self, rows: Sequence[int], refused: Iterable[int], states: Iterable[TaskState], problem: Problem | None
    ) -> None:
        """Of one part: `rows` are its places in the worker's message."""
        said = chain(states, repeat(TASK_STATE_UNSPECIFIED))
        self._refused.update((rows[at], state) for at, state in zip(refused, said, strict=False))
        # What may pass is said first: the worker then repeats all of them, and hears of the others again.
        if problem is not None and (self._problem is None or self._problem.code == NOT_SETTLED):
            self._problem = problem
        self._missing -= 1
        if not self._missing:
            at = sorted(self._refused)
            states = [self._refused[each] for each in at] if any(self._refused.values()) else []
            confirmed = pb.SettleConfirmed(sequence=self._sequence, refused=at, states=states)
            if self._problem is not None:
                confirmed.problem.CopyFrom(self._problem)
            self._stream.answer(confirmed, self._tokens)


class OwnPart:
    """A settler for the part that this instance settles itself."""

    def __init__(self, joint: Joint, number: int, namespace: str, rows: Sequence[int]) -> None:
        self.number = number
        self.namespace = namespace
        self._joint = joint
        self._rows = rows

    def owe(self, tokens: int) -> None:
        """The whole is owed already."""

    def confirm(self, confirmation: Confirmation) -> None:
        confirmed = confirmed_of(confirmation)
        problem = confirmed.problem if confirmed.HasField("problem") else None
        self._joint.answer(self._rows, confirmed.refused, confirmed.states, problem)
