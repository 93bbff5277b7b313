"""How many attempts of a task have begun. Its row counts those before it, and does not say whether it was sent itself:
one that waits for the end of a delivery is the next attempt already (protocol section 4, K1)."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.partition import Asked, history_with
from timerd.model.identity import RowKey, attempt_of
from timerd.model.partition import Partition
from timerd.model.settle import Carry, Outcome
from timerd.services.engine.verbs import State, TaskView
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler

# So ended, a task may have been with a worker, whose attempt failed after that.
_MAY_HAVE_FAILED = frozenset({Outcome.CANCELLED, Outcome.PURGED, Outcome.EXPIRED})
# In these states the attempt that the row stands for was not begun (or its end is not known: then one less is shown).
NOT_BEGUN = frozenset({State.PENDING, State.RETRYING, State.CANCELLED, State.PURGED, State.EXPIRED})


class Attempts:
    """Of one scheduler."""

    def __init__(self, scheduler: Scheduler, time: EngineTime) -> None:
        self._scheduler = scheduler
        self._time = time

    def begun(self, partition: Partition, key: RowKey, state: State, lease_until_ms: int, *, ended_unsent: bool) -> int:
        """`lease_until_ms`: that of the row; `ended_unsent`: an ack of an earlier attempt has ended it."""
        is_waiting = state is State.IN_FLIGHT and self._waits(partition, key, lease_until_ms)
        return attempt_of(key.version) - (state in NOT_BEGUN or ended_unsent or is_waiting)

    def _waits(self, partition: Partition, key: RowKey, lease_until_ms: int) -> bool:
        """Whether what a worker has is the delivery before. A row that is not due was not sent."""
        if not lease_until_ms:
            return False
        if key.position_ms > self._time.exact_ms():
            return True
        machine = self._scheduler.machines.get(partition)
        is_sent = machine is None or machine.ask(key)[0] is Asked.OPEN
        return not is_sent and not self._scheduler.deliveries.came_since(key, 0)

    async def has_ended_unsent(self, partition: Partition, key: RowKey, outcome: Outcome | None) -> bool:
        """By the records of its partition, which are read where that may be."""
        if outcome is not Outcome.ACKED or attempt_of(key.version) == 1:
            return False
        return (await self._scheduler.procedures.settled.endings(partition)).says_unsent(partition, key)

    async def last(self, partition: Partition, key: RowKey, outcome: Outcome | None) -> Carry | None:
        """How the attempt failed with which the row ended, by the records of its partition."""
        if outcome not in _MAY_HAVE_FAILED:
            return None
        return (await self._scheduler.procedures.settled.endings(partition)).last_attempt(key)


def with_last(view: TaskView, failed: Carry | None) -> TaskView:
    """As its row tells of it, and of the attempt after that with which it ended."""
    if failed is None:
        return view
    error, progress = failed.last_error or view.last_error, failed.progress or view.progress
    attempt, history = attempt_of(failed.version) - 1, history_with(view.history, failed)
    return replace(view, attempt=attempt, last_error=error, history=history, progress=progress)
