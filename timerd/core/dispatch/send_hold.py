"""Credit that comes back in drops is collected before it is used, where a queue has more due than its workers want.

Without it a worker that returns credit message by message is sent ever smaller messages (the silly window of TCP), and
at one or two tasks each a server that fell behind stays behind: a message costs as much as two dozen tasks.
"""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.dispatch.limits import Allowance, Slice
from timerd.core.taken import QueueKey

# Of what its workers take at most, so much is worth a message; less waits, but not longer than this.
WORTH = 1 / 32
HOLD_MS = 5


class SendHold:
    """Knows of each worker how much it takes at once; the sum says what a queue's workers have in hand when they are
    busy, so that a worker of one task at a time never waits. `wanted`: their credit now."""

    def __init__(self, wanted: Callable[[QueueKey], int]) -> None:
        self._wanted = wanted
        self._namespaces: dict[int, str] = {}
        self._windows: dict[QueueKey, dict[int, int]] = {}
        # When a queue's workers had got all that they wanted.
        self._dry_ms: dict[QueueKey, int] = {}

    def join(self, worker: int, namespace: str) -> None:
        self._namespaces[worker] = namespace

    def granted(self, worker: int, queue: str, tasks: int) -> QueueKey:
        """The largest credit that it gave at once is what it can take. Who gives none, as what stands for the workers
        of another instance, is not listed: nobody would take the queue off again."""
        key = QueueKey(self._namespaces[worker], queue)
        if tasks > self._windows.get(key, {}).get(worker, 0):
            self._windows.setdefault(key, {})[worker] = tasks
        return key

    def left(self, worker: int) -> None:
        self._namespaces.pop(worker, None)
        for queue in [queue for queue, windows in self._windows.items() if worker in windows]:
            del self._windows[queue][worker]
            if not self._windows[queue]:
                del self._windows[queue]
                self._dry_ms.pop(queue, None)

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        dry_ms = self._dry_ms.get(queue)
        # A clock that was set back is no reason to wait.
        if dry_ms is None or not dry_ms <= now_ms < dry_ms + HOLD_MS:
            return Allowance(tasks, now_ms)
        if self._wanted(queue) >= WORTH * sum(self._windows.get(queue, {}).values()):
            return Allowance(tasks, now_ms)
        return Allowance(0, dry_ms + HOLD_MS, heeds_credit=True)

    def sent(self, sent: Slice) -> float:
        if sent.is_dry:
            self._dry_ms[sent.queue] = sent.now_ms
        return sent.now_ms

    def lapse(self, queue: QueueKey) -> None:
        """So much time has passed, whatever the clock shows: what is due goes, until the queue is dry again."""
        self._dry_ms.pop(queue, None)

    def forget(self, queue: QueueKey) -> None:
        self._dry_ms.pop(queue, None)
