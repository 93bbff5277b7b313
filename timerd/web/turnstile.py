"""How many requests are worked on at one time: what HTTP costs is taken from the loop that fires, so it gets a small
part of it, and the rest waits in a line with an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from timerd.model.errors import Overloaded

AT_ONCE = 4
WAITING = 64
RETRY_AFTER_MS = 1_000


class LinePlace:
    """Of one request in the line, until it leaves."""

    def __init__(self, turnstile: Turnstile) -> None:
        self._turnstile = turnstile
        self._is_there = True

    def leave(self) -> None:
        """Also before its end, where it will only wait for something to happen."""
        if self._is_there:
            self._is_there = False
            self._turnstile.entered -= 1

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """While it is worked on."""
        async with self._turnstile.inside:
            yield


class Turnstile:
    """Of one instance."""

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        self._most = at_once + waiting
        self.inside = asyncio.Semaphore(at_once)
        self.entered = 0

    @contextmanager
    def place(self) -> Iterator[LinePlace]:
        """From before the body is read to the answer. Raises Overloaded."""
        if self.entered >= self._most:
            raise Overloaded(
                f"{self.entered} HTTP requests are waiting here: try again in a moment, or use gRPC for many calls.",
                "HTTP_BUSY",
                retry_after_ms=RETRY_AFTER_MS,
            )
        self.entered += 1
        place = LinePlace(self)
        try:
            yield place
        finally:
            place.leave()
