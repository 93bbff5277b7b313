"""What one instance of a cluster may start by the rates of its limit keys: as much as it has drawn tokens for, from the
keepers of the keys' homes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from timerd.core.regulation.draw_order import DrawOrder, DrawStage
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
    """How many tokens of a key to draw, 0: whether there are any; and for how long its keeper is to hold it, 0: not."""

    want: int
    hold_ms: int


class KeyTokens(NamedTuple):
    """Of a key that may start nothing for want of tokens. `next_ms`: none before that by the boot clock; infinite: when
    a keeper has answered. `may`: all that it lacks begins soon, or there is a token of what it is to draw next."""

    next_ms: float
    may: bool


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
        # Of queues that may start few.
        self.draw_order = DrawOrder(self._stage, boot_ms)
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
        token that another one holds back would lapse. Where the queue has none for the key nothing is drawn: its
        keepers say whether there are any."""
        short = [] if self._is_leaving else [key for key in self._rated(queue, limit_key) if self._is_short(key)]
        draws = queue not in self.draw_order or (bool(short) and self.draw_order.admit(queue, limit_key))
        for key in short[:1] if draws else short:
            tokens = self._tokens(key)
            if draws:
                tokens.wants = True
            elif not tokens.is_seen(self.boot_ms()):
                tokens.looks = True
            self._call(key)

    def known(self, queue: QueueKey, limit_key: str) -> KeyTokens | None:
        """What is known of the tokens that a key of the queue lacks; None: it lacks none."""
        now_ms, begin_ms, may = self.boot_ms(), -math.inf, list[bool]()
        for key in self._rated(queue, limit_key):
            tokens = self._drawn.get(key) or DrawnTokens()
            if tokens.free(now_ms):
                continue
            begins_ms = tokens.begins_ms(now_ms)
            if begins_ms < math.inf and not tokens.coming(now_ms):
                return KeyTokens(begins_ms, may=False)
            begin_ms = max(begin_ms, begins_ms)
            if begins_ms == math.inf:
                may.append(tokens.is_seen(now_ms))
        return KeyTokens(begin_ms, may=all(may[:1])) if begin_ms > -math.inf else None

    def sent(self, queue: QueueKey, limit_key: str, tasks: int) -> None:
        """So many of the key start."""
        self.draw_order.sent(queue, limit_key, tasks)

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
            if asks[key].want:
                tokens.granted(asked_ms, now_ms, grant)
            else:
                tokens.seen(now_ms, grant.again_ms)

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

    def _rated(self, queue: QueueKey, limit_key: str) -> list[LimitedKey]:
        """By whose tokens a key of the queue goes, the lowest rate first."""
        limits = [(key, self._limits.limit_of(key)) for key in self._limits.of(queue, limit_key)]
        rates = {key: limit.rate / limit.period_ms for key, limit in limits if limit is not None and limit.rate}
        return sorted(rates, key=rates.__getitem__)

    def _stage(self, queue: QueueKey, limit_key: str) -> DrawStage:
        """Of a key for which there was a token of the queue."""
        now_ms, has_any, is_asked = self.boot_ms(), False, False
        for key in self._rated(queue, limit_key) if self._waiting(queue, limit_key) else ():
            tokens = self._drawn.get(key) or DrawnTokens()
            coming, is_begun = tokens.coming(now_ms), tokens.free(now_ms) > 0
            if not coming and tokens.begins_ms(now_ms) < math.inf:
                return DrawStage.OVER
            has_any = has_any or tokens.wants or coming > 0
            is_asked = is_asked or (not is_begun and (tokens.wants or coming > 0))
        if not has_any:
            return DrawStage.OVER
        return DrawStage.ASKED if is_asked else DrawStage.READY

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
