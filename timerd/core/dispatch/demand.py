"""What this instance asks of the homes: credit for tasks that are due here beyond what it has for their queue.

A home is asked a moment before the tasks are due, so that the credit is here in time, and for what is due a little
later as well, so that a stream of tasks is not one question each. A question stands until the home has granted as much
or it is taken back; it is repeated only when it has doubled. Credit for which nothing is due goes back.
"""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.taken import QueueKey

# A grant takes a few milliseconds to come.
AHEAD_MS = 10
FAR_AHEAD_MS = 50
# More is asked when that has come.
MAX_ASKED = 1_000


class Ask(NamedTuple):
    """`tasks` 0: nothing any more."""

    home: int
    queue: QueueKey
    tasks: int
    key: int


class Demand:
    """`home` is the number of one stream from a home."""

    def __init__(self) -> None:
        # Queue -> homes that have workers for it -> tasks asked for and not granted yet.
        self._asked: dict[QueueKey, dict[int, int]] = {}

    def serve(self, home: int, queue: QueueKey) -> None:
        self._asked.setdefault(queue, {}).setdefault(home, 0)

    def leave(self, home: int, queue: QueueKey) -> None:
        homes = self._asked.get(queue)
        if homes is not None:
            homes.pop(home, None)
            if not homes:
                del self._asked[queue]

    def home_gone(self, home: int) -> None:
        for queue in list(self._asked):
            self.leave(home, queue)

    def queues(self) -> list[QueueKey]:
        """Those that other instances have workers for."""
        return list(self._asked)

    def granted(self, home: int, queue: QueueKey, tasks: int) -> None:
        homes = self._asked.get(queue, {})
        if home in homes:
            homes[home] = max(0, homes[home] - tasks)

    def asks(self, queue: QueueKey, near: int, far: int, credit: int, key: int) -> list[Ask]:
        """`near` and `far`: how many tasks are due within the two times; `credit`: for how many there is some."""
        homes = self._asked.get(queue, {})
        if near <= credit:
            return [self._ask(home, queue, 0, key) for home, asked in homes.items() if asked]
        each = -(-min(MAX_ASKED, far - credit) // len(homes)) if homes else 0
        return [self._ask(home, queue, each, key) for home, asked in homes.items() if not asked or each >= 2 * asked]

    def check(self) -> None:
        """Invariants, for tests."""
        assert all(homes and all(asked >= 0 for asked in homes.values()) for homes in self._asked.values())

    def _ask(self, home: int, queue: QueueKey, tasks: int, key: int) -> Ask:
        self._asked[queue][home] = tasks
        return Ask(home, queue, tasks, key)
