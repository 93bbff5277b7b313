"""Queues whose first worker has just come: what they missed is loaded before anything of them is delivered.

Without it the tasks of the last minutes, which are in memory, would overtake those that wait in the backlog. A store
that does not answer holds a queue up for a moment only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from timerd.model.partition import Partition

TIMEOUT_S = 1.0


class Opening:
    """Scopes of such queues; `wake` is called with one when it may be delivered."""

    def __init__(self, wake: Callable[[int], None]) -> None:
        self._wake = wake
        self._left: dict[int, set[Partition] | None] = {}

    def __bool__(self) -> bool:
        return bool(self._left)

    def __contains__(self, scope: int) -> bool:
        return scope in self._left

    def begin(self, scope: int) -> None:
        self._left[scope] = None
        asyncio.get_running_loop().call_later(TIMEOUT_S, self.end, scope)

    def expect(self, scope: int, partitions: Iterable[Partition]) -> None:
        """These are being loaded."""
        left = set(partitions)
        if not left:
            self.end(scope)
        elif scope in self._left:
            self._left[scope] = left

    def ready(self, partition: Partition) -> None:
        """It is loaded, or nothing is left of it."""
        left = self._left.get(partition.scope)
        if left is not None:
            left.discard(partition)
            if not left:
                self.end(partition.scope)

    def end(self, scope: int) -> None:
        if scope in self._left:
            del self._left[scope]
            self._wake(scope)
