"""Ticks that wait in line, so that those of one moment are worked together (core/schedules/ticking_many.py).

A few parts are at work at a time, and what comes meanwhile makes the next ones. So one tick by itself waits for nobody,
and the more are due the more go together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from timerd.services.background import begin

MOST_TOGETHER = 128
PARTS_AT_ONCE = 3


class HandedTick(NamedTuple):
    """A delivery. `token` acknowledges it."""

    token: bytes
    queue: str
    payload: bytes
    attempt: int


class TickParts:
    """`work` is given each part; it ends when the next one may begin."""

    def __init__(self, work: Callable[[list[HandedTick]], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: deque[HandedTick] = deque()
        self._at_work = 0
        self._is_woken = False

    def add(self, handed: HandedTick) -> None:
        """What comes in the same turn of the loop goes together."""
        self._waiting.append(handed)
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_woken = False
        while self._waiting and self._at_work < PARTS_AT_ONCE:
            part = [self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))]
            self._at_work += 1
            begin(self._worked(part), "ticks")

    async def _worked(self, part: list[HandedTick]) -> None:
        try:
            await self._work(part)
        finally:
            self._at_work -= 1
            self._begin()
