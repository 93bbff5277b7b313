"""What became of a settle, as the message that says so."""

from __future__ import annotations

from timerd.services.dispatch.ports import Confirmation
from timerd.services.transport.status import problem_of
from timerd.v1.task_pb2 import Problem, TaskState
from timerd.v1.work_service_pb2 import SettleConfirmed

# FAILED_PRECONDITION: it cannot be settled any more.
NOT_SETTLED = 9


def confirmed_of(said: Confirmation) -> SettleConfirmed:
    """What could not be stored is refused as a whole: sending it again is safe."""
    if said.error is not None:
        return SettleConfirmed(sequence=said.sequence, refused=range(said.tokens), problem=problem_of(said.error))
    if not said.refused:
        return SettleConfirmed(sequence=said.sequence)
    at = sorted(said.refused)
    refusals = [said.refused[each] for each in at]
    states = [TaskState.Name(each.state) for each in refusals] if any(each.state for each in refusals) else []
    problem = Problem(code=NOT_SETTLED, message=refusals[0].sentence, reason=refusals[0].reason)
    return SettleConfirmed(sequence=said.sequence, refused=at, problem=problem, states=states)
