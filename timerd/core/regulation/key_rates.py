"""Rates of limit keys, each counted by itself. One that allows its whole burst says what a new one does, and is kept
nowhere."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from timerd.core.regulation.rate import RateLimit
from timerd.model.regulations import QueueLimit

# Rates that are kept before those are looked for that may be forgotten.
SLACK_RATES = 1_024
# A queue or a limit, and a limit key.
Owner = tuple[Hashable, str]


class _Rate(NamedTuple):
    limit: QueueLimit
    rate: RateLimit


class KeyRates:
    """By whose rate it is: a queue or a limit, and a limit key."""

    def __init__(self) -> None:
        self._rates: dict[Owner, _Rate] = {}
        self._prune_at = SLACK_RATES

    def __len__(self) -> int:
        return len(self._rates)

    def owners(self) -> Iterable[Owner]:
        """Those whose rate may allow less than its whole burst."""
        return self._rates

    def of(self, owner: Owner, limit: QueueLimit, now_ms: int, is_known: Callable[[], bool]) -> RateLimit | None:
        """What was sent counts on under another rate. `is_known`: whether one of which nothing is kept has its whole
        burst."""
        if not limit.rate:
            return None
        found = self._rates.get(owner)
        if found is not None and found.limit is limit:
            return found.rate
        rate = found.rate.changed(limit, now_ms) if found is not None else RateLimit(limit, now_ms, is_full=is_known())
        self._rates[owner] = _Rate(limit, rate)
        if len(self._rates) > self._prune_at:
            self._prune(now_ms)
        return rate

    def _prune(self, now_ms: int) -> None:
        self._rates = {name: each for name, each in self._rates.items() if each.rate.free(now_ms) < each.limit.burst}
        self._prune_at = 2 * len(self._rates) + SLACK_RATES
