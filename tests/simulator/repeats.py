"""Calls that come again, byte for byte the same, at any later time; and tries that are held up at a step of theirs, or
whose callers have given up waiting: they go on after later calls were answered.

Its chance is its own, so a history without it is what it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from timerd.core.protocol.request_memory import REQUEST_MEMORY_MS

Result = TypeVar("Result")
HOUR_MS = 3_600_000
# Of a repeat, after its first try was made; sometimes hours.
AFTER_MS = (0, 0, 1, 40, 300, 1_000, 2_000, 3_000, 9_000, 20_000, 65_000, 120_000)
HOURS_MS = (HOUR_MS, 7 * HOUR_MS)
# How long a try is held up, and at which of its steps at the store.
HELD_MS = (300, 1_900, 2_600, 6_000, 15_000, 40_000)
STEPS = (1, 1, 2, 2, 3, 4, 5, 6, 8, 10)
# As services/calls/call_deadline.py: so long a caller is kept waiting.
PATIENCE_MS = 2_250
# Who repeats so late need not be remembered any more.
MEMORY_MS = REQUEST_MEMORY_MS - HOUR_MS


@dataclass
class Hold:
    """Of one try: the step of its own that takes so long."""

    steps: int
    for_ms: float


HOLD: ContextVar[Hold | None] = ContextVar("hold", default=None)


# One read of these serves all who ask at that time: it is slow for all of them, or for none.
SHARED = ("settled",)


async def held_up(step: str) -> None:
    """Before a step at the store."""
    hold = HOLD.get()
    if hold is not None and hold.steps and step not in SHARED and _is_of_a_try():
        hold.steps -= 1
        if not hold.steps:
            await asyncio.sleep(hold.for_ms / 1000)


def _is_of_a_try() -> bool:
    """Not of what an instance does by itself because of it, such as to take a partition: others wait for that as well,
    and a driver would not wait so long. Such work has a name (timerd/services/background.py)."""
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("Task-")


async def _with(hold: Hold, work: Coroutine[Any, Any, Result]) -> Result:
    """What the try has begun, and what its caller begins after it, is not held."""
    before = HOLD.set(hold)
    try:
        return await work
    finally:
        hold.steps = 0
        HOLD.reset(before)


class Repeats:
    """What one history does of it. `says_when`: its callers say when they make a call."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"repeats {seed}")
        chance = self.random.choice
        self.says_when = chance((True, True, False))
        self._repeated, self._held = chance((0.3, 0.6, 0.9)), chance((0.0, 0.1, 0.3))
        self._far = chance((False, False, False, True))
        self._keyed, self._by_key = chance((0.0, 0.3, 0.6)), chance((0.0, 0.3))

    def delays_ms(self) -> list[int]:
        """When the call is repeated."""
        if self.random.random() >= self._repeated:
            return []
        many = self.random.choice((1, 1, 2, 3))
        return [
            self.random.choice(HOURS_MS if self._far and self.random.random() < 0.1 else AFTER_MS) for _ in range(many)
        ]

    def is_held(self) -> bool:
        return self.random.random() < self._held

    def held(self, work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result]:
        return _with(Hold(self.random.choice(STEPS), self.random.choice(HELD_MS)), work)

    def is_keyed(self) -> bool:
        return self.random.random() < self._keyed

    def is_by_key(self) -> bool:
        return self.random.random() < self._by_key
