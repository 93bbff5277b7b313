"""A breaker: a queue whose attempts fail is left in peace for a while, then tried with one task.

What waits meanwhile has not begun: no attempt is used up, and it can be cancelled or moved. What was sent before the
breaker has opened says nothing of afterwards, however late it ends: else answers of before decide over probes, and a
target that is well again stays shut, or one that is not is asked by all.
"""

from __future__ import annotations

import math
from collections import deque
from enum import Enum, auto
from hashlib import blake2b
from typing import NamedTuple

# Half of so many attempts within so long have failed: it opens.
LEAST_ATTEMPTS = 20
WINDOW_MS = 30_000
FIRST_PAUSE_MS = 5_000
MOST_PAUSE_MS = 300_000
# A pause is up to this part of it shorter, so that instances do not try together.
JITTER = 0.1
# So many tasks in a row, one at a time, close it.
PROBES = 3
# Closed again, it lets one task go at a time, then two, and so on: beyond so many it lets all go.
MOST_AT_FIRST = 256
SECOND_MS = 1_000


class BreakerState(Enum):
    """CLOSED: it lets go. OPEN: it lets nothing go. HALF_OPEN: one at a time, to see."""

    CLOSED = auto()
    OPEN = auto()
    HALF_OPEN = auto()


class Evidence(Enum):
    """What the end of an attempt says. NEITHER: it was not the attempt's fault, or no fault at all."""

    GOOD = auto()
    BAD = auto()
    NEITHER = auto()


class ProbeRoom(NamedTuple):
    """So many more may go; where that is none, when to ask again (infinite: when one has ended)."""

    tasks: float
    next_ms: float


class QueueBreaker:
    """Of one queue. `seed`: chance, as a text: pauses are shorter by it. What was sent by `now_ms` does not count."""

    def __init__(self, seed: str, now_ms: int) -> None:
        self.state = BreakerState.CLOSED
        self.openings = 0
        self._seed = seed
        # Of pauses, since it has let all go.
        self._in_a_row = 0
        # What was sent later is of this epoch, and decides.
        self._since_ms = now_ms
        self._until_ms = 0
        # Of this epoch.
        self._in_hand = 0
        self._good = 0
        # How many may be in hand, and how many good ones double it.
        self._most: float = math.inf
        self._left = 0
        # (second, good, bad), the latest last.
        self._window: deque[tuple[int, int, int]] = deque()

    def room(self, now_ms: int) -> ProbeRoom:
        self._look(now_ms)
        if self.state is BreakerState.OPEN:
            return ProbeRoom(0, self._until_ms)
        most = 1 if self.state is BreakerState.HALF_OPEN else self._most
        return ProbeRoom(max(0, most - self._in_hand), math.inf)

    def until_ms(self, now_ms: int) -> int | None:
        """When it tries again. None: it is not OPEN."""
        self._look(now_ms)
        return self._until_ms if self.state is BreakerState.OPEN else None

    def begun(self, tasks: int, sent_ms: int) -> None:
        if sent_ms > self._since_ms:
            self._in_hand += tasks

    def ended(self, evidence: Evidence, tasks: int, sent_ms: int, now_ms: int) -> None:
        """So many that were sent then. What says nothing makes room all the same."""
        if sent_ms <= self._since_ms:
            return
        self._in_hand = max(0, self._in_hand - tasks)
        if evidence is Evidence.NEITHER:
            return
        if self.state is BreakerState.HALF_OPEN:
            self._probed(evidence, tasks, now_ms)
        else:
            self._count(evidence, tasks, now_ms)

    def _look(self, now_ms: int) -> None:
        if self.state is BreakerState.OPEN and now_ms >= self._until_ms:
            self.state = BreakerState.HALF_OPEN
            self._good = 0

    def _probed(self, evidence: Evidence, tasks: int, now_ms: int) -> None:
        if evidence is Evidence.BAD:
            self._open(now_ms)
            return
        self._good += tasks
        if self._good >= PROBES:
            self.state = BreakerState.CLOSED
            self._most = self._left = 1

    def _count(self, evidence: Evidence, tasks: int, now_ms: int) -> None:
        second = now_ms // SECOND_MS
        good, bad = (tasks, 0) if evidence is Evidence.GOOD else (0, tasks)
        if self._window and self._window[-1][0] == second:
            _, good_before, bad_before = self._window.pop()
            good, bad = good + good_before, bad + bad_before
        self._window.append((second, good, bad))
        while self._window[0][0] <= second - WINDOW_MS // SECOND_MS:
            self._window.popleft()
        if evidence is Evidence.GOOD:
            self._more(tasks)
        elif self._is_failing():
            self._open(now_ms)

    def _is_failing(self) -> bool:
        good, bad = sum(each[1] for each in self._window), sum(each[2] for each in self._window)
        return good + bad >= LEAST_ATTEMPTS and bad >= good

    def _more(self, tasks: int) -> None:
        """Twice as many may go when so many were good as may go now."""
        self._left -= tasks
        while self._left <= 0 and self._most < math.inf:
            self._most *= 2
            self._left += int(self._most)
            if self._most > MOST_AT_FIRST:
                self._most, self._in_a_row = math.inf, 0

    def _open(self, now_ms: int) -> None:
        pause_ms = min(MOST_PAUSE_MS, FIRST_PAUSE_MS << min(self._in_a_row, 10))
        self._in_a_row += 1
        self.openings += 1
        self.state, self._since_ms = BreakerState.OPEN, now_ms
        self._until_ms = now_ms + pause_ms - int(pause_ms * JITTER * self._chance())
        self._in_hand = 0
        self._window.clear()

    def _chance(self) -> float:
        """From 0 to 1, another one for each opening."""
        drawn = blake2b(f"{self._seed}\0{self.openings}".encode(), digest_size=4, person=b"timerd.breaker")
        return int.from_bytes(drawn.digest(), "big") / (1 << 32)
