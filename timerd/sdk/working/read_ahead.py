"""How many tasks a lane of single calls asks for: what its handlers have, and what they will have done 20 ms later.

A handler that is done before the next message is here would wait for it, most of its time. So it gets so much more as
it takes in 20 ms, 1,000 at most. One that takes longer gets nothing on top, for what waits in a worker is no other
worker's.
"""

from __future__ import annotations

_AHEAD_S = 0.02
_MOST_AHEAD = 1_000
# Of what a call took, in the mean of those before it. Before the first it is so long that 37 calls that take nothing
# are needed to show that a handler is fast.
_WEIGHT = 1 / 16
_UNKNOWN_S = 10 * _AHEAD_S
# A change of the credit costs a message: it is made where it is worth one.
_WORTH = 1.25


class ReadAhead:
    """`tasks` is how many it asks for now."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self.tasks = concurrency
        self._mean_s = _UNKNOWN_S

    def ran(self, took_s: float) -> int:
        """A handler was done with one task. By how much `tasks` has changed; it falls by no more than that one."""
        self._mean_s += (took_s - self._mean_s) * _WEIGHT
        wanted = self._concurrency + self._ahead()
        if wanted < self.tasks:
            change = -1
        elif wanted >= self.tasks * _WORTH or wanted == self._concurrency + _MOST_AHEAD:
            change = wanted - self.tasks
        else:
            return 0
        self.tasks += change
        return change

    def restart(self) -> None:
        """It has nothing on top until its handlers have shown again that they are fast."""
        self.tasks = self._concurrency
        self._mean_s = _UNKNOWN_S

    def _ahead(self) -> int:
        ahead_s = self._concurrency * _AHEAD_S
        if self._mean_s >= _AHEAD_S:
            return 0
        return _MOST_AHEAD if ahead_s >= _MOST_AHEAD * self._mean_s else int(ahead_s / self._mean_s)


__all__ = ["ReadAhead"]
