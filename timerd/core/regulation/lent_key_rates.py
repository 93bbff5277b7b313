"""What one instance of a cluster may start by the rates of its limit keys: as much as it has drawn tokens for, from the
keepers of the keys' homes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from timerd.core.regulation.key_rates import SLACK_RATES
from timerd.core.regulation.lent_rates import LentRate
from timerd.core.regulation.limits_of_keys import LimitsOfKeys
from timerd.core.regulation.tokens import DrawnTokens, TokenGrant
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitedKey, LimitLabels
from timerd.model.regulations import QueueLimit

# So many keys does one call speak of; the others are asked for with the next one.
MOST_ASKED = 1_000


class KeyAsk(NamedTuple):
    """How many tokens of a key to draw, and for how long its keeper is to hold it; 0: not."""

    want: int
    hold_ms: int


class LentKeyRates:
    """Implements core.regulation.key_rates.RatesOfKeys. `waiting`: how many rows of a key are due. `boot_ms`: a clock
    that is never set."""

    def __init__(
        self, limits: LimitsOfKeys, waiting: Callable[[QueueKey, str], int], boot_ms: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._waiting = waiting
        self.boot_ms = boot_ms
        self._ask: Callable[[int], None] = lambda _: None
        self._is_leaving = False
        self._drawn: dict[LimitedKey, DrawnTokens] = {}
        # Tokens of keys that were forgotten.
        self._over = Counter[LimitLabels]()
        self._lapsed = Counter[LimitLabels]()
        # Home -> its keys whose keeper is to be called.
        self._unasked: dict[int, dict[LimitedKey, None]] = {}
        self._prune_at = SLACK_RATES

    def __len__(self) -> int:
        return len(self._drawn)

    def on_want(self, ask: Callable[[int], None]) -> None:
        """`ask` is told of homes whose keepers are to be called."""
        self._ask = ask

    def owners(self) -> Iterable[LimitedKey]:
        """Those of which something was drawn, or is wanted."""
        return self._drawn

    def of(self, key: LimitedKey, limit: QueueLimit, now_ms: int, is_known: Callable[[], bool]) -> LentRate | None:
        """Nothing is drawn for tasks without a key: they are no customer's."""
        if not limit.rate or not key.limit_key:
            return None
        return LentRate(self._drawn.get(key) or DrawnTokens(), self.boot_ms)

    def counted(self) -> Mapping[LimitLabels, tuple[int, int]]:
        drawn, lapsed = Counter(self._over), Counter(self._lapsed)
        for key, each in self._drawn.items():
            drawn[key.limit] += each.drawn
            lapsed[key.limit] += each.lapsed
        return {labels: (tokens, lapsed[labels]) for labels, tokens in drawn.items()}

    def want(self, queue: QueueKey, limit_key: str) -> None:
        """A key of the queue is held back. Of several rates of which no token is here the lowest one is drawn from: a
        token that another one holds back would lapse."""
        if self._is_leaving:
            return
        limits = [(key, self._limits.limit_of(key)) for key in self._limits.of(queue, limit_key)]
        short = {key: limit for key, limit in limits if limit is not None and limit.rate and self._is_short(key)}
        if short:
            key = min(short, key=lambda each: short[each].rate / short[each].period_ms)
            self._tokens(key).wants = True
            self._call(key)

    def hold(self, key: LimitedKey, for_ms: int) -> None:
        """A handler was throttled by it: its keeper is to hold all instances."""
        limit = self._limits.limit_of(key)
        if limit is not None and limit.rate and key.limit_key:
            self._tokens(key).hold(self.boot_ms() + for_ms)
            self._call(key)

    def asks(self, home: int) -> dict[LimitedKey, KeyAsk]:
        """What to ask its keeper now."""
        now_ms, unasked = self.boot_ms(), self._unasked.get(home, {})
        for key in [key for key in unasked if not self._is_due(key, now_ms)]:
            del unasked[key]
        return {key: self._asked(key, now_ms) for key in islice(unasked, MOST_ASKED)}

    def granted(
        self, asked_ms: float, asks: Mapping[LimitedKey, KeyAsk], grants: Mapping[LimitedKey, TokenGrant]
    ) -> None:
        """In answer to a call that was made then."""
        now_ms = self.boot_ms()
        for key, grant in grants.items():
            tokens = self._tokens(key)
            tokens.told(asked_ms, asks[key].hold_ms)
            tokens.granted(asked_ms, now_ms, grant)

    def lapse(self) -> None:
        """The lease was lost. What is wanted is wanted still."""
        for each in self._drawn.values():
            wants = each.wants
            each.lapse()
            each.wants = wants

    def leave(self) -> None:
        """Nothing is sent any more."""
        self._is_leaving = True
        for each in self._drawn.values():
            each.lapse()

    def to_call(self) -> list[int]:
        """Homes whose keepers are to be called."""
        return [home for home in list(self._unasked) if self.asks(home)]

    # -- inside ---------------------------------------------------------------------------------------------------

    def _tokens(self, key: LimitedKey) -> DrawnTokens:
        found = self._drawn.get(key)
        if found is None:
            if len(self._drawn) >= self._prune_at:
                self._prune()
            found = self._drawn[key] = DrawnTokens()
        return found

    def _prune(self) -> None:
        now_ms = self.boot_ms()
        over = {key: each for key, each in self._drawn.items() if each.is_over(now_ms)}
        for key, each in over.items():
            self._over[key.limit] += each.drawn
            self._lapsed[key.limit] += each.lapsed
            del self._drawn[key]
        self._prune_at = 2 * len(self._drawn) + SLACK_RATES

    def _is_short(self, key: LimitedKey) -> bool:
        """No token is here, and nobody knows when there may be one."""
        now_ms, tokens = self.boot_ms(), self._drawn.get(key) or DrawnTokens()
        return not tokens.free(now_ms) and tokens.begins_ms(now_ms) == math.inf

    def _is_due(self, key: LimitedKey, now_ms: float) -> bool:
        tokens = self._drawn.get(key)
        return tokens is not None and tokens.is_due(now_ms)

    def _asked(self, key: LimitedKey, now_ms: float) -> KeyAsk:
        due = sum(self._waiting(queue, key.limit_key) for queue in self._limits.queues(key.limit))
        return KeyAsk(self._drawn[key].want(due), self._drawn[key].held_for_ms(now_ms))

    def _call(self, key: LimitedKey) -> None:
        if self._is_due(key, self.boot_ms()):
            self._unasked.setdefault(key.home, {})[key] = None
            self._ask(key.home)
