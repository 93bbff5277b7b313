"""A limit of ten a second on one queue."""

from __future__ import annotations

from timerd.core.dispatch.limits import Allowance, Slice
from timerd.core.taken import QueueKey

EACH_MS = 100
BURST = 10


class TenASecond:
    """The generic cell rate algorithm: one number, the instant at which all that was sent would have been due at the
    rate. Ten may come at once; who was sent nothing for a second may have them again."""

    def __init__(self, queue: QueueKey) -> None:
        self._queue = queue
        self._arrival_ms = 0

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        if queue != self._queue:
            return Allowance(tasks, now_ms)
        free = (now_ms + BURST * EACH_MS - max(self._arrival_ms, now_ms)) // EACH_MS
        return Allowance(min(tasks, free), self._next_ms())

    def sent(self, sent: Slice) -> float:
        if sent.queue != self._queue:
            return sent.now_ms
        self._arrival_ms = max(self._arrival_ms, sent.now_ms) + sent.tasks * EACH_MS
        return max(sent.now_ms, self._next_ms())

    def forget(self, queue: QueueKey) -> None:
        """What was sent counts, whether its workers are still there or not."""

    def _next_ms(self) -> int:
        """When one more may go."""
        return self._arrival_ms - (BURST - 1) * EACH_MS
