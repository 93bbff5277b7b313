"""How often a queue is sent what is due: to the millisecond while that is little, on a coarser grid while it is much.

What is sent in one go costs some 0.4 ms of a processor whatever it is: at 11,600 tasks a second a millisecond each is
75 us a task, three milliseconds each are 45 to 50. Where a millisecond of what is due is worth a message by itself
nothing waits, nor where more is due than leaves in one go.
"""

from __future__ import annotations

from dataclasses import dataclass

from timerd.core.dispatch.limits import Allowance, Slice
from timerd.core.taken import QueueKey

MOST_GRID_MS = 3
# Tasks per millisecond: for each so many the grid is a millisecond coarser.
EXACT_TASKS_PER_MS = 5
# A message of more gains little.
WORTH_TASKS = 64
# The rate is that of the last whole window.
WINDOW_MS = 64


@dataclass(slots=True)
class _Lane:
    window: int = 0
    tasks: int = 0
    rate: float = 0.0
    next_ms: int = 0


class Pacing:
    """Of one instance, by queue."""

    def __init__(self) -> None:
        self._lanes: dict[QueueKey, _Lane] = {}

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        """What is due goes now, or with the next step of the grid."""
        lane = self._lanes.get(queue)
        # A clock that was set back is no reason to wait.
        if lane is not None and now_ms < lane.next_ms <= now_ms + MOST_GRID_MS:
            return Allowance(0, lane.next_ms)
        return Allowance(tasks, now_ms)

    def sent(self, sent: Slice) -> float:
        """Where more is due than leaves in one go, it does not wait for a step."""
        queue, now_ms, tasks, *_ = sent
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = _Lane()
        window = now_ms // WINDOW_MS
        if window != lane.window:
            lane.rate = lane.tasks / WINDOW_MS if window == lane.window + 1 else 0.0
            lane.window, lane.tasks = window, 0
        lane.tasks += tasks
        step_ms = grid_ms(lane.rate)
        lane.next_ms = now_ms + step_ms if sent.is_all and step_ms > 1 else 0
        return max(now_ms, lane.next_ms)

    def is_rested(self, queue: QueueKey, now_ms: int) -> bool:
        """Whether nothing of it was sent recently, which is a window at least."""
        lane = self._lanes.get(queue)
        return lane is None or not 0 <= now_ms // WINDOW_MS - lane.window <= 1

    def forget(self, queue: QueueKey) -> None:
        self._lanes.pop(queue, None)


def grid_ms(rate: float) -> int:
    """`rate`: tasks per millisecond."""
    coarser_ms = int(rate // EXACT_TASKS_PER_MS)
    return min(MOST_GRID_MS, 1 + coarser_ms, int(-(-WORTH_TASKS // rate))) if coarser_ms else 1
