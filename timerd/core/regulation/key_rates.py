"""Rates of limit keys, each counted by itself. One that allows its whole burst says what a new one does, and is kept
nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from timerd.core.regulation.lent_rates import LentRate
from timerd.core.regulation.rate import RateLimit
from timerd.model.keeping import LimitedKey, LimitLabels
from timerd.model.regulations import QueueLimit

# Rates that are kept before those are looked for that may be forgotten.
SLACK_RATES = 1_024


class RatesOfKeys(Protocol):
    """By what limit keys start that have a rate for themselves."""

    def owners(self) -> Iterable[LimitedKey]:
        """Those whose rate may allow less than its whole burst."""
        ...

    def counted(self) -> Mapping[LimitLabels, tuple[int, int]]:
        """How many tokens were drawn so far in a cluster for all keys of a limit, and how many of them have lapsed."""
        ...

    def of(
        self, key: LimitedKey, limit: QueueLimit, now_ms: int, is_known: Callable[[], bool]
    ) -> RateLimit | LentRate | None:
        """None: the limit has none. `is_known`: whether a key of which nothing is kept has its whole burst."""
        ...


class _Rate(NamedTuple):
    limit: QueueLimit
    rate: RateLimit


class KeyRates:
    """Implements RatesOfKeys on a server that is alone."""

    def __init__(self) -> None:
        self._rates: dict[LimitedKey, _Rate] = {}
        self._prune_at = SLACK_RATES

    def __len__(self) -> int:
        return len(self._rates)

    def owners(self) -> Iterable[LimitedKey]:
        return self._rates

    def counted(self) -> Mapping[LimitLabels, tuple[int, int]]:
        return {}

    def of(self, key: LimitedKey, limit: QueueLimit, now_ms: int, is_known: Callable[[], bool]) -> RateLimit | None:
        """What was sent counts on under another rate."""
        if not limit.rate:
            return None
        found = self._rates.get(key)
        if found is not None and found.limit is limit:
            return found.rate
        rate = found.rate.changed(limit, now_ms) if found is not None else RateLimit(limit, now_ms, is_full=is_known())
        self._rates[key] = _Rate(limit, rate)
        if len(self._rates) > self._prune_at:
            self._prune(now_ms)
        return rate

    def _prune(self, now_ms: int) -> None:
        self._rates = {name: each for name, each in self._rates.items() if each.rate.free(now_ms) < each.limit.burst}
        self._prune_at = 2 * len(self._rates) + SLACK_RATES
