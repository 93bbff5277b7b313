"""How long an instance may believe that what it holds is still its own (protocol section 4, lease trust).

The holder counts from the *start* of its last good heartbeat; observers count the same time-to-live over their own
successful reads, so an honest holder always stops first. On one machine the file lock answers instead:
`LeaseTrust.always()`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

MARGIN_MS = 1_000.0


@dataclass(slots=True)
class LeaseTrust:
    """Times are of a clock that counts suspend."""

    ttl_ms: float
    _good_start_ms: float = -inf

    @classmethod
    def always(cls) -> LeaseTrust:
        return cls(inf, 0.0)

    def heartbeat(self, started_boot_ms: float) -> None:
        """A heartbeat that began then has succeeded."""
        self._good_start_ms = max(self._good_start_ms, started_boot_ms)

    def age_ms(self, boot_ms: float) -> float:
        """Of the last good heartbeat."""
        return boot_ms - self._good_start_ms

    def is_trusted(self, boot_ms: float) -> bool:
        return boot_ms < self._good_start_ms + self.ttl_ms - MARGIN_MS


@dataclass(slots=True)
class Observation:
    """One observer's view of another instance: dead after its counter stood still over >= 3 own good reads that span
    the TTL. It may have moved last when the first of them ended, and was still there when the last one began."""

    ttl_ms: float
    _counter: int = -1
    _since_ms: float = 0.0
    _reads: int = 0
    _last_read_ms: float = 0.0

    def read(self, counter: int, started_ms: float, ended_ms: float | None = None) -> None:
        """A successful serial read. After a gap without reads the time-out starts again."""
        if counter != self._counter or started_ms - self._last_read_ms > self.ttl_ms / 2:
            self._counter, self._reads = counter, 0
            self._since_ms = started_ms if ended_ms is None else ended_ms
        self._reads += 1
        self._last_read_ms = started_ms

    @property
    def stood_still_ms(self) -> float:
        return self._last_read_ms - self._since_ms

    def age_ms(self, boot_ms: float) -> float:
        """Of the last sign of life, at least."""
        return max(0.0, boot_ms - self._since_ms)

    @property
    def dead_at_ms(self) -> float:
        """When a read can say so, if the counter does not move."""
        return self._since_ms + self.ttl_ms

    @property
    def is_dead(self) -> bool:
        return self._reads >= 3 and self.stood_still_ms >= self.ttl_ms
