"""Start-time fair queueing among the keys of one queue: the key of the least tag is next, and pays for each row one, or
a third where its weight is three.

A key that comes anew begins where the queue is, or where it stopped itself if that is later: who was idle has saved
nothing, and who was served has not forgotten it. A key that may send nothing now is in no heap that is looked at: it is
ready again at an instant, or when something of it ends.
"""

from __future__ import annotations

import heapq
import math
from itertools import count

from timerd.core.fairness.lines import FiledChunk, KeyLine

# Keys without anything due whose tags are remembered, beside as many as have something.
SLACK = 64


class Turns:
    """Of one queue. `blocked`: keys that wait for the end of one of their deliveries. `share_was`: how many a key
    might have when it was last asked."""

    def __init__(self) -> None:
        self.lines: dict[str, KeyLine] = {}
        self.blocked: dict[KeyLine, None] = {}
        self.share_was = 0
        self.rules: object = None
        self._reached = 0.0
        self._ready: list[tuple[float, int, int, KeyLine]] = []
        self._later: list[tuple[float, int, KeyLine]] = []
        self._tags: dict[str, float] = {}
        self._numbers = count()

    def line(self, limit_key: str) -> KeyLine:
        found = self.lines.get(limit_key)
        if found is None:
            tag = max(self._reached, self._tags.pop(limit_key, 0.0))
            found = self.lines[limit_key] = KeyLine(limit_key=limit_key, tag=tag, place=next(self._numbers))
            self.ready(found)
        return found

    def first(self, now_ms: float) -> KeyLine | None:
        """The key whose turn it is; None: no key may send anything now."""
        while self._later and self._later[0][0] <= now_ms:
            self.ready(heapq.heappop(self._later)[2])
        while self._ready:
            tag, _, _, line = self._ready[0]
            is_current = line.is_ready and line.tag == tag
            if is_current and line.rows:
                return line
            heapq.heappop(self._ready)
            if is_current:
                self._forget(line)
        return None

    def lead(self, most: int) -> int:
        """How many rows the key whose turn it is may send before it is the turn of the next one; one at least."""
        others = [entry[0] for entry in self._ready[1:3]]
        tag, _, _, line = self._ready[0]
        return min(most, max(1, int((min(others) - tag) * line.weight))) if others else most

    def pay(self, line: KeyLine, rows: int) -> None:
        """So many are sent of the key whose turn it is."""
        line.tag += rows / line.weight
        # Where the last of them has started.
        self._reached = max(self._reached, line.tag - 1 / line.weight)
        line.place = next(self._numbers)
        if line.rows:
            heapq.heapreplace(self._ready, self._entry(line))
        else:
            heapq.heappop(self._ready)
            self._forget(line)

    def refund(self, line: KeyLine, rows: int) -> None:
        """So many were not sent in the end."""
        line.tag -= rows / line.weight
        if self.lines.get(line.limit_key) is not line:
            self._tags.pop(line.limit_key, None)
            self._remember(line)
        elif line.is_ready:
            line.is_ready = False
            self.ready(line)

    def ready(self, line: KeyLine) -> None:
        """It may be its turn again, in its place: of equals who was paid for before has it before."""
        self.blocked.pop(line, None)
        line.is_shared = False
        if not line.is_ready and self.lines.get(line.limit_key) is line:
            line.is_ready = True
            heapq.heappush(self._ready, self._entry(line))

    def rest(self, line: KeyLine) -> None:
        """The key whose turn it is may send nothing now; `wait` says for how long, or `ready` that it may."""
        heapq.heappop(self._ready)
        line.is_ready = False

    def wait(self, line: KeyLine, until_ms: float) -> None:
        """Nothing of it is sent before that; infinite: before something of it has ended."""
        if until_ms < math.inf:
            heapq.heappush(self._later, (until_ms, next(self._numbers), line))
        else:
            self.blocked[line] = None

    def release(self) -> None:
        """What keeps keys back is another rule now."""
        waiting = [*self.blocked, *(entry[2] for entry in self._later)]
        self._later.clear()
        for line in waiting:
            self.ready(line)

    def release_shared(self) -> None:
        """A share is more than it was."""
        for line in [line for line in self.blocked if line.is_shared]:
            self.ready(line)

    def next_ms(self) -> float:
        """When a key may send something that waits; infinite: when something has ended."""
        if self.first(-math.inf) is not None:
            return -math.inf
        return self._later[0][0] if self._later else math.inf

    def held(self, now_ms: float) -> list[KeyLine]:
        """Keys that have something due and may send nothing now."""
        self.first(now_ms)
        waiting = dict.fromkeys([*self.blocked, *(entry[2] for entry in self._later)])
        return [line for line in waiting if line.rows and not line.is_ready]

    def chunks(self) -> set[FiledChunk]:
        """All that waits here."""
        found = {run.chunk for line in self.lines.values() for _, _, run in line.runs}
        return {chunk for chunk in found if chunk.count}

    def drop_empty(self) -> None:
        """Keys of which nothing waits any more."""
        for line in [line for line in self.lines.values() if not line.rows]:
            self._forget(line)

    def _entry(self, line: KeyLine) -> tuple[float, int, int, KeyLine]:
        return line.tag, line.place, next(self._numbers), line

    def _forget(self, line: KeyLine) -> None:
        """Nothing of it waits."""
        self.lines.pop(line.limit_key, None)
        self.blocked.pop(line, None)
        line.is_ready = False
        if len(self._tags) > 2 * len(self.lines) + SLACK:
            self._tags = {key: tag for key, tag in self._tags.items() if tag > self._reached}
        self._remember(line)

    def _remember(self, line: KeyLine) -> None:
        """A key that comes back goes on where it stopped, until the others have come so far."""
        if line.tag > self._reached:
            self._tags[line.limit_key] = line.tag
