"""G9: of due tasks of a queue the one with the greatest score comes first, among those that are loaded.

Of two buckets it holds to a second, for a bucket's tasks are taken in stretches.

A server reads a bucket to its end before it delivers anything out of it, and several buckets at a time, none waiting
for another. So a bucket is known to be loaded when something has come out of it since the server started.
"""

from __future__ import annotations

from tests.simulator.events import Delivered
from tests.simulator.known import Known
from timerd.model.partition import bucket_of

LEVEL_MS = 64_000
ON_DEMAND_MS = 256_000
# What was stored, or became due, a moment ago need not be known to the server yet.
SETTLED_MS = 5_000
SLACK_MS = 1_000


def turn_ms(task: Known, now_ms: float) -> float:
    """The score in milliseconds of waiting; the least is next."""
    waited_ms = now_ms - task.wanted.fire_at_ms
    on_demand_ms = ON_DEMAND_MS + 2 * waited_ms if task.wanted.on_demand else 0
    return -waited_ms - LEVEL_MS * task.wanted.priority - on_demand_ms


class Order:
    """Judges tasks that were stored in time, and neither moved nor failed."""

    def __init__(self) -> None:
        self._stored: list[Known] = []
        self._loaded: set[int] = set()
        # How often one came while another waited for certain.
        self.judged = 0

    def server_started(self) -> None:
        self._loaded.clear()

    def stored(self, task: Known) -> None:
        self._stored.append(task)

    def passed_over(self, task: Known, got: Delivered) -> list[Known]:
        """Whose turn it was when this one was delivered."""
        if task.delivered > 1 or not task.is_where_it_was or task.wanted.fire_at_ms < task.stored_ms:
            return []
        self._loaded.add(bucket_of(task.wanted.fire_at_ms))
        queue = [other for other in self._stored if other.wanted.queue == task.wanted.queue]
        waiting = [other for other in queue if self._waits(other, got)]
        self.judged += bool(waiting)
        turn = turn_ms(task, got.at_ms)
        return [other for other in waiting if turn_ms(other, got.at_ms) + _slack_ms(other, task) < turn]

    def _waits(self, other: Known, got: Delivered) -> bool:
        """For certain."""
        if other.delivered or not other.is_where_it_was or other.cancels or other.wanted.expire_at_ms:
            return False
        fire_at_ms = other.wanted.fire_at_ms
        is_due = max(other.stored_ms, fire_at_ms) + SETTLED_MS < got.at_ms
        return is_due and fire_at_ms >= other.stored_ms and bucket_of(fire_at_ms) in self._loaded


def _slack_ms(other: Known, task: Known) -> int:
    return 0 if bucket_of(other.wanted.fire_at_ms) == bucket_of(task.wanted.fire_at_ms) else SLACK_MS
