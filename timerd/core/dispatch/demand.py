"""What this instance asks of the homes: credit for tasks that are due here beyond what it has for their queue.

A home is asked a moment before the tasks are due, so that the credit is here in time, and for what is due a little
later as well, so that a stream of tasks is not one question each. A question stands until the home has granted as much
or it is taken back; it is repeated only when it has doubled, or when what is first is more or less urgent by far than
was said. Credit for which nothing is due goes back.
"""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.taken import QueueKey
from timerd.model.task import PRIORITY_MS

# A grant takes a few milliseconds to come.
AHEAD_MS = 10
FAR_AHEAD_MS = 50
# More is asked when that has come.
MAX_ASKED = 1_000
# So far the order key of the first task is from what the home was told: by half a level of priority. That of a task on
# demand falls as it waits.
URGENT_MS = PRIORITY_MS // 2


class Ask(NamedTuple):
    """`tasks` 0: nothing any more."""

    home: int
    queue: QueueKey
    tasks: int
    key: int


class _Question(NamedTuple):
    """`tasks`: asked for and not granted yet; `key`: that of the first one, when it was asked."""

    tasks: int
    key: int


NOTHING = _Question(0, 0)


class Demand:
    """`home` is the number of one stream from a home."""

    def __init__(self) -> None:
        # Queue -> homes that have workers for it -> what it was asked for.
        self._asked: dict[QueueKey, dict[int, _Question]] = {}

    def serve(self, home: int, queue: QueueKey) -> None:
        self._asked.setdefault(queue, {}).setdefault(home, NOTHING)

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
            asked = homes[home]
            homes[home] = asked._replace(tasks=max(0, asked.tasks - tasks))

    def asks(self, queue: QueueKey, near: int, far: int, credit: int, key: int) -> list[Ask]:
        """`near` and `far`: how many tasks are due within the two times; `credit`: for how many there is some."""
        homes = self._asked.get(queue, {})
        if near <= credit:
            return [self._ask(home, queue, 0, key) for home, asked in homes.items() if asked.tasks]
        each = -(-min(MAX_ASKED, far - credit) // len(homes)) if homes else 0
        return [self._ask(home, queue, each, key) for home, asked in homes.items() if _is_news(asked, each, key)]

    def check(self) -> None:
        """Invariants, for tests."""
        assert all(homes and all(asked.tasks >= 0 for asked in homes.values()) for homes in self._asked.values())

    def _ask(self, home: int, queue: QueueKey, tasks: int, key: int) -> Ask:
        self._asked[queue][home] = _Question(tasks, key)
        return Ask(home, queue, tasks, key)


def _is_news(asked: _Question, tasks: int, key: int) -> bool:
    """To a home that was asked before."""
    return not asked.tasks or tasks >= 2 * asked.tasks or abs(key - asked.key) >= URGENT_MS
