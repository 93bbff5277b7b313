"""How many tasks a lane of batches asks for: twice what its handlers take, so that the next is here when one ends.

A handler that is done with that in less time than a message is under way would wait for the next one, so it gets more:
what it takes in 20 ms, four times as much at most. One that becomes slow gives it back with what it has ended, for what
waits in a worker is no other worker's.
"""

from __future__ import annotations

_AHEAD_S = 0.02
_MOST_TIMES = 4


class BatchCredit:
    """`tasks` is how many it asks for now."""

    def __init__(self, max_size: int, concurrency: int) -> None:
        self._max_size = max_size
        self._concurrency = concurrency
        self._least = self.tasks = max_size * (concurrency + 1)

    def ran(self, tasks: int, took_s: float) -> int:
        """A handler was done with so many. By how much `tasks` has changed; it falls by no more than they are."""
        if tasks < self._max_size and took_s < _AHEAD_S:
            # It was not given more, so how fast it is does not matter.
            return 0
        change = max(-tasks, self._wanted(tasks * self._concurrency * _AHEAD_S, took_s) - self.tasks)
        self.tasks += change
        return change

    def _wanted(self, ahead: float, took_s: float) -> int:
        """Whole batches: no two take exactly as long."""
        most = _MOST_TIMES * self._least
        if ahead >= most * took_s:
            return most
        return max(self._least, int(ahead / took_s) // self._max_size * self._max_size)
