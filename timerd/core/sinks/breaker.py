"""How many tasks a target may be sent now. One that fails is left in peace for a while, then tried with one.

What waits meanwhile has not begun: its attempts are not used up, and it can be cancelled or moved.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

# Failures in a row that open it, of requests that go one by one.
FAILURES = 5
FIRST_PAUSE_MS = 1_000
MOST_PAUSE_MS = 300_000
# A target that puts off its tasks for so long is failing.
MOST_THROTTLED_MS = 86_400_000


class TargetHealth(Enum):
    """What one answer says of the target."""

    HEALTHY = "healthy"
    FAILING = "failing"
    THROTTLING = "throttling"
    GONE = "gone"


class TargetState(Enum):
    """OPEN: it fails and is left in peace. THROTTLED: it has asked for a pause. PAUSED: it is gone, for good."""

    OK = "ok"
    OPEN = "open"
    THROTTLED = "throttled"
    PAUSED = "paused"


class Room(NamedTuple):
    """So many may be open; where that may be more later, when to ask again."""

    most: int
    next_ms: float


class Breaker:
    """Of one target. `most`: how many tasks may be open where all is well. `failures`: so many in a row open it."""

    def __init__(self, most: int, failures: int = FAILURES) -> None:
        self.state = TargetState.OK
        self._most = most
        self._failures_that_open = failures
        self._failures = 0
        # How often it has opened since the last success.
        self._opened = 0
        self._until_ms = 0
        # After a pause one goes first.
        self._is_trying = False
        self._throttled_since_ms: int | None = None

    def room(self, now_ms: int) -> Room:
        if self.state is TargetState.PAUSED:
            return Room(0, math.inf)
        if now_ms < self._until_ms:
            return Room(0, self._until_ms)
        return Room(1 if self._is_trying else self._most, math.inf)

    def is_throttled_too_long(self, now_ms: int) -> bool:
        since_ms = self._throttled_since_ms
        return since_ms is not None and now_ms - since_ms >= MOST_THROTTLED_MS

    def heard(self, health: TargetHealth, wait_ms: int | None, now_ms: int) -> None:
        """One answer, or that none came."""
        if self.state is TargetState.PAUSED:
            return
        if health is TargetHealth.GONE:
            self.state = TargetState.PAUSED
        elif health is TargetHealth.THROTTLING:
            self._throttled(wait_ms or 0, now_ms)
        elif health is TargetHealth.HEALTHY:
            self._healthy(now_ms)
        else:
            self._failed(now_ms)

    def _throttled(self, wait_ms: int, now_ms: int) -> None:
        if self._throttled_since_ms is None:
            self._throttled_since_ms = now_ms
        self._pause(TargetState.THROTTLED, now_ms + max(wait_ms, FIRST_PAUSE_MS))

    def _healthy(self, now_ms: int) -> None:
        """What was under way when the target asked for a pause does not end that pause."""
        self._failures = 0
        if self.state is TargetState.THROTTLED and now_ms < self._until_ms:
            return
        self.state = TargetState.OK
        self._opened = self._until_ms = 0
        self._is_trying = False
        self._throttled_since_ms = None

    def _failed(self, now_ms: int) -> None:
        """Those that were under way when it opened say nothing new."""
        if now_ms < self._until_ms:
            return
        self._failures += 1
        if self._is_trying or self._failures >= self._failures_that_open:
            pause_ms = min(MOST_PAUSE_MS, FIRST_PAUSE_MS << min(self._opened, 20))
            self._opened += 1
            self._pause(TargetState.OPEN, now_ms + pause_ms)

    def _pause(self, state: TargetState, until_ms: int) -> None:
        self.state = state
        self._until_ms = max(self._until_ms, until_ms)
        self._is_trying = True
