"""How much one round of delivery sends: 2 to 4 ms of work.

What a queue gets in one go is bounded by tasks, and by bytes as soon as it is known how large its tasks are. A turn of
the loop is as long as what is sent in it and acknowledged for it, and the others wait for one or two turns. Who has
nothing to wait for is no other: large messages cost each task less.
"""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.dispatch.delivery_machine import MAX_DELIVER_TASKS
from timerd.core.dispatch.limits import Allowance, Slice
from timerd.core.taken import QueueKey

# A message costs as much as so many tasks, and so many bytes as one.
ROUND_TASKS = 2_000
MESSAGE_TASKS = 25
TASK_BYTES = 1_024
MIN_SLICE_TASKS = 32
SHARED_SLICE_TASKS = 400
FIRST_SLICE_TASKS = 64
# A queue for which nothing falls due within so long waits for nobody's turn. A few turns, so that one with a task now
# and then counts from before it is due.
SOON_MS = 20
SLICE_BYTES = 2 << 20
# Of so many queues each gets the least, and of more too.
MOST_COUNTED = -(-ROUND_TASKS // MIN_SLICE_TASKS)


def slice_tasks(queues: int) -> int:
    """Of each queue. `queues`: how many have something due soon, or `MOST_COUNTED`."""
    most = SHARED_SLICE_TASKS if queues > 1 else MAX_DELIVER_TASKS
    return max(MIN_SLICE_TASKS, min(most, ROUND_TASKS // max(1, queues)))


def fitting_tasks(known_bytes: int | None, *, is_first: bool) -> int:
    """Of a queue whose tasks are so large; None: that is not known yet. `is_first`: nothing of it was sent recently, so
    a handler waits, and begins while the next message is made ready."""
    most = FIRST_SLICE_TASKS if is_first or known_bytes is None else MAX_DELIVER_TASKS
    return most if known_bytes is None else max(1, min(most, SLICE_BYTES // known_bytes))


def cost_tasks(tasks: int, messages: int, sent_bytes: int) -> int:
    """In tasks."""
    return tasks + messages * MESSAGE_TASKS + sent_bytes // TASK_BYTES


class Quantum:
    """What a queue may have of one round. `is_rested`: whether nothing of a queue was sent recently."""

    def __init__(self, is_rested: Callable[[QueueKey, int], bool]) -> None:
        self._is_rested = is_rested
        # About how many bytes a task of the queue takes.
        self._task_bytes: dict[QueueKey, int] = {}
        self._most = self._left = 0

    def begin(self, queues: int) -> None:
        """A round begins, and so many queues have something due soon."""
        self._most, self._left = slice_tasks(queues), ROUND_TASKS

    @property
    def is_used_up(self) -> bool:
        """Whether the round is over: what is due comes with the next one, which begins at once."""
        return self._left <= 0

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        fitting = fitting_tasks(self._task_bytes.get(queue), is_first=self._is_rested(queue, now_ms))
        return Allowance(min(tasks, self._most, fitting), now_ms)

    def sent(self, sent: Slice) -> float:
        self._left -= cost_tasks(sent.tasks, sent.messages, sent.size_bytes)
        self._task_bytes[sent.queue] = max(sent.size_bytes // sent.tasks + 1, self._task_bytes.get(sent.queue, 0) // 2)
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        self._task_bytes.pop(queue, None)
