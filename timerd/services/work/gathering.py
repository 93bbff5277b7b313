"""Credit that comes back in drops is gathered before it is used, where a queue has more due than its workers want.

Without it a worker that returns credit message by message is sent ever smaller messages (the silly window of TCP), and
at one or two tasks each a server that fell behind stays behind: a message costs as much as two dozen tasks.
"""

from __future__ import annotations

from timerd.core.taken import QueueKey

# Of what its workers take at most, so much is worth a message; less waits, but not longer than this.
WORTH = 1 / 32
WAIT_S = 0.005


class Gathering:
    """Knows of each worker how much it takes at once; the sum says what a queue's workers have in hand when they are
    busy, so that a worker of one task at a time never waits."""

    def __init__(self) -> None:
        self._namespaces: dict[int, str] = {}
        self._windows: dict[QueueKey, dict[int, int]] = {}
        self._dry_s: dict[QueueKey, float] = {}

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
                self._dry_s.pop(queue, None)

    def sent(self, queue: QueueKey, now_s: float, *, is_dry: bool) -> None:
        """`is_dry`: the workers have got all that they wanted."""
        if is_dry:
            self._dry_s[queue] = now_s

    def wait_s(self, queue: QueueKey, wanted: int, now_s: float) -> float:
        """How long what is due waits for more credit; 0: it goes now."""
        dry_s = self._dry_s.get(queue)
        if dry_s is None or wanted >= WORTH * sum(self._windows.get(queue, {}).values()):
            return 0.0
        return max(0.0, dry_s + WAIT_S - now_s)
