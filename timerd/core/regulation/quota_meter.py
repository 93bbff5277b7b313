"""How much of its quota a namespace has used: for each rate one number, as in rate.py, but taken in lumps.

A message is taken as a whole or not at all. One that is larger than the burst goes when nothing is owed, and is owed
from then on: so nothing waits for ever, and in the long run the rate holds to the task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.quotas import Quota

SECOND_MS = 1_000


class Use(NamedTuple):
    """Of one message."""

    calls: int
    tasks: int
    bytes: int


class Excess(NamedTuple):
    """What keeps a message back: `per_s` of `what` are allowed, and there is room for it in `wait_ms`."""

    what: str
    per_s: int
    wait_ms: int


@dataclass(slots=True)
class LumpRate:
    """`full` counts in parts of a millisecond of which `per_s` make one: when nothing will be owed any more."""

    per_s: int
    burst_s: int
    full: int = 0

    def wait_ms(self, amount: int, now_ms: int) -> int:
        """Until there is room for so much; 0: there is."""
        most = self.per_s * self.burst_s
        ahead = self.full - now_ms * self.per_s - (most - min(amount, most)) * SECOND_MS
        return max(0, -(-ahead // self.per_s))

    def take(self, amount: int, now_ms: int) -> None:
        self.full = max(self.full, now_ms * self.per_s) + amount * SECOND_MS


class QuotaMeter:
    """Of one namespace."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        given = Use(quota.calls_per_s, quota.tasks_per_s, quota.bytes_per_s)
        self._rates = [LumpRate(per_s, quota.burst_s) if per_s else None for per_s in given]

    def take(self, use: Use, now_ms: int) -> Excess | None:
        """None: it is taken. Else nothing is."""
        found = [Excess(Use._fields[n], rate.per_s, rate.wait_ms(use[n], now_ms)) for n, rate in self._given()]
        worst = max(found, key=lambda each: each.wait_ms, default=None)
        if worst is not None and worst.wait_ms:
            return worst
        for n, rate in self._given():
            rate.take(use[n], now_ms)
        return None

    def is_rested(self, now_ms: int) -> bool:
        """Whether nothing is owed: one that begins anew says the same."""
        return all(rate.full <= now_ms * rate.per_s for _, rate in self._given())

    def _given(self) -> Iterator[tuple[int, LumpRate]]:
        return ((n, rate) for n, rate in enumerate(self._rates) if rate is not None)
