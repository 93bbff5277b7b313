"""Streams end in order when this instance goes away: what was sent is read before the end is.

A stream that is cut takes along what its other side has not read yet. Of a delivery it would be taken for read, and the
task would wait for the end of a lease that nobody knows of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

# For what is owed; on a machine that keeps up it takes milliseconds.
WRITTEN_S = 3.0


class HangingUp:
    """Of one server."""

    def __init__(self) -> None:
        # In the order in which they came.
        self._reading: dict[asyncio.Task[None], None] = {}
        self._is_over = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Where a call reads: when this side hangs up that ends, as if the other side had ended it."""
        task = asyncio.current_task()
        assert task is not None
        self._reading[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if not self._is_over or task.uncancel() > 0:
                raise
        finally:
            self._reading.pop(task, None)

    async def hang_up(self, timeout_s: float = WRITTEN_S) -> None:
        """Returns when all calls have written what they owe, or when it takes too long."""
        self._is_over = True
        calls = list(self._reading)
        for call in calls:
            call.cancel()
        if calls:
            await asyncio.wait(calls, timeout=timeout_s)
