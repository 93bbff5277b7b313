"""How much work is coming, from how many tasks are due in each minute: for an autoscaler that adds replicas before it
is there.

A replica that starts when the load has come is late by its own start. What is due is known beforehand, so the demand of
an instant is that of the busiest minute from a while ago (`hold_ms`: nobody goes in the middle of a wave) until a
while ahead (`lead_ms`: a new replica is ready by then).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Outlook:
    """`lead_ms`: longer than it takes to see the demand, to start a replica, and for it to take its share."""

    lead_ms: int = 180_000
    hold_ms: int = 300_000

    def window_ms(self, now_ms: int) -> tuple[int, int]:
        """From the minute of the first instant to the end of that of the last one."""
        first, last = (now_ms - self.hold_ms) // MINUTE_MS, (now_ms + self.lead_ms) // MINUTE_MS
        return first * MINUTE_MS, (last + 1) * MINUTE_MS


def demand_per_s(due: Mapping[int, int], now_ms: int, outlook: Outlook) -> float:
    """Tasks a second. `due`: start of a minute -> tasks in it; what was taken off later may make one negative."""
    lo_ms, hi_ms = outlook.window_ms(now_ms)
    busiest = max((count for minute_ms, count in due.items() if lo_ms <= minute_ms < hi_ms), default=0)
    return max(0, busiest) * 1000 / MINUTE_MS


def replicas_for(demand: float, per_replica: float, least: int, most: int) -> int:
    """As an autoscaler rounds it."""
    return min(most, max(least, math.ceil(demand / per_replica)))
