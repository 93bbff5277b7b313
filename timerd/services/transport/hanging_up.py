"""Streams end in order when this instance goes away: what was sent is read before the end is.

A stream that is cut takes along what its other side has not read yet. Of a delivery it would be taken for read, and the
task would wait for the end of a lease that nobody knows of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)
# For what is owed; on a machine that keeps up it takes milliseconds.
WRITTEN_S = 3.0


class HangingUp:
    """Of one server."""

    def __init__(self) -> None:
        # In the order in which they came.
        self._reading: dict[asyncio.Task[None], None] = {}
        # Whose end is this side's doing, and in order. Who comes later is cancelled when the server stops, and that is
        # no end in order: what such a call is owed may never come.
        self._hung_up: set[asyncio.Task[None]] = set()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Where a call reads: when this side hangs up that ends, as if the other side had ended it."""
        task = asyncio.current_task()
        assert task is not None
        self._reading[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._hung_up or task.uncancel() > 0:
                raise
        finally:
            self._reading.pop(task, None)
            self._hung_up.discard(task)

    async def hang_up(self, timeout_s: float = WRITTEN_S) -> None:
        """Returns when all calls have written what they owe, or when it takes too long."""
        calls = list(self._reading)
        self._hung_up.update(calls)
        for call in calls:
            call.cancel()
        _, late = await asyncio.wait(calls, timeout=timeout_s) if calls else ((), ())
        if late:
            log.warning("%d of %d streams have not taken in %g s what they are owed", len(late), len(calls), timeout_s)
