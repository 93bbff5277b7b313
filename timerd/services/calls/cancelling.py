"""A cancel of what a worker has: the caller may wait for its end.

The cancel comes first, so the wait ends nothing and undoes nothing: it only says later, and then for good, what became
of the task.
"""

from __future__ import annotations

from functools import partial

from timerd.model.errors import Invalid, TimerdError
from timerd.model.identity import TaskId
from timerd.services.calls.due_times import duration_ms
from timerd.services.calls.fields import namespace_of
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.task_ends import TaskEnds
from timerd.services.engine.verbs import CancelAnswer, State, Verbs
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

MAX_WAIT_MS = 600_000
# Any other state: the worker has it still.
ENDS = {
    State.CANCELLED: CancelAnswer.CANCELLED,
    State.PURGED: CancelAnswer.ALREADY_CANCELLED,
    State.ACKED: CancelAnswer.ALREADY_FIRED,
    State.DEAD: CancelAnswer.ALREADY_FIRED,
    State.EXPIRED: CancelAnswer.ALREADY_FIRED,
    State.FINISHED: CancelAnswer.FINISHED,
}


class Cancelling:
    """One method a verb, as in `Mutations`."""

    def __init__(self, change: Mutations, verbs: Verbs, ends: TaskEnds) -> None:
        self._change = change
        self._verbs = verbs
        self._ends = ends

    async def cancel(self, request: wire.CancelRequest) -> wire.CancelResponse:
        wait_ms = _wait_ms(request)
        task, answer = await self._change.cancel(request)
        if wait_ms and task is not None and answer is CancelAnswer.IN_FLIGHT:
            answer = await self._waited(namespace_of(request.namespace), task, wait_ms)
        return wire.CancelResponse(outcome=task_wire.CancelOutcome.Name(answer.value))

    async def _waited(self, namespace: str, task: TaskId, wait_ms: int) -> CancelAnswer:
        """An error does not say that nothing was cancelled: who cannot be waited for is with its worker as far as is
        known."""
        look = partial(self._verbs.get, namespace, task)
        try:
            view = await self._ends.wait(task, look, wait_ms / 1000)
        except TimerdError:
            return CancelAnswer.IN_FLIGHT
        return ENDS.get(view.state, CancelAnswer.IN_FLIGHT)


def _wait_ms(request: wire.CancelRequest) -> int:
    """Raises Invalid, before anything is cancelled."""
    wait_ms = duration_ms(request.wait, "wait") if request.HasField("wait") else 0
    if not 0 <= wait_ms <= MAX_WAIT_MS:
        raise Invalid(
            f"wait is {wait_ms / 1000:g} s: use 0 to {MAX_WAIT_MS // 1000} s, and repeat the call with the same "
            "request_id to wait on.",
            "wait",
        )
    return wait_ms
