"""The keeper of a limit hands out the tokens of its rate (rules T1 to T4 of docs/understand/protocol.md, rates.pml).

It counts a token when it hands it out, as a single instance counts a start, by one arrival time for all. So that the
rate is reached although answers take their time, it counts up to AHEAD_MS ahead: a bunch then begins later. Those that
want more than there is get bunches of the same size, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from timerd.core.regulation.rate import RateLimit
from timerd.core.regulation.tokens import TokenGrant
from timerd.model.regulations import QueueLimit

# So far ahead tokens are handed out.
AHEAD_MS = 200
# What the rate gives in so long goes round among those that want some.
ROUND_MS = 100
# Who was served last asks so much later than the one before it.
TURN_MS = 30
# Who does not ask again for so long wants nothing.
FORGET_MS = 1_000
# While there is no rate here, for what instances know differs for a moment.
UNRULED_MS = 250
SOON_MS = 10


@dataclass(slots=True)
class _Drawer:
    """`hungry_ms`: until then it counts as one that wants more. `served`: the number of its last bunch."""

    hungry_ms: float
    served: int


class TokenKeeper:
    """Of one limit. `is_first`: there was no keeper before, so all of the burst may go at once. Times are of a clock
    that is never set, in whole ms."""

    def __init__(self, now_ms: int, *, is_first: bool) -> None:
        self._is_first = is_first
        # The latest instant at which something was counted: nothing is counted before it. T3: what the keeper before
        # has counted ahead is over by then.
        self._at_ms = self._began_ms = now_ms if is_first else now_ms + AHEAD_MS
        self._limit = QueueLimit()
        self._rate: RateLimit | None = None
        self._drawers: dict[str, _Drawer] = {}
        self._bunches = 0

    def hold(self, for_ms: int, now_ms: int) -> None:
        """A handler was throttled: nothing is counted before that."""
        self._at_ms = max(self._at_ms, now_ms + for_ms)

    def draw(self, name: str, want: int, limit: QueueLimit | None, now_ms: int) -> TokenGrant:
        """So many for that instance, by the limit as it is now. None are wanted: whether there are any."""
        rate = self._by(limit) if limit is not None and limit.rate else None
        if rate is None:
            return TokenGrant(0, 0, UNRULED_MS if want else 0)
        self._at_ms = max(self._at_ms, now_ms)
        if not want:
            return TokenGrant(0, 0, self._again_ms(rate, now_ms))
        at_ms = self._at_ms
        known = self._drawers.get(name, _Drawer(now_ms, 0))
        before = sum(each.served < known.served for each in self._hungry(now_ms, but=name))
        if at_ms <= now_ms + AHEAD_MS and (tokens := min(want, self._even(name, now_ms), self._room(rate, now_ms))):
            return self._served(name, tokens, rate, now_ms)
        again_ms = self._again_ms(rate, now_ms) + before * TURN_MS
        self._drawers[name] = _Drawer(now_ms + again_ms + FORGET_MS, known.served)
        return TokenGrant(0, 0, again_ms)

    def is_over(self, now_ms: int) -> bool:
        """T5: it says nothing that one would not say that has counted nothing since it began."""
        is_whole = self._rate is None or self._rate.free(now_ms) >= self._limit.burst
        return is_whole and self._at_ms <= now_ms and not self._hungry(now_ms, but="")

    # -- inside ---------------------------------------------------------------------------------------------------

    def _by(self, limit: QueueLimit) -> RateLimit:
        """What was counted counts on."""
        if self._rate is None:
            self._rate = RateLimit(limit, self._began_ms, is_full=self._is_first)
        elif limit != self._limit:
            self._rate = self._rate.changed(limit, self._at_ms)
        self._limit = limit
        return self._rate

    def _hungry(self, now_ms: int, but: str) -> list[_Drawer]:
        self._drawers = {name: each for name, each in self._drawers.items() if each.hungry_ms > now_ms or name == but}
        return [each for name, each in self._drawers.items() if name != but]

    def _even(self, name: str, now_ms: int) -> int:
        """What each gets at a time."""
        others = len(self._hungry(now_ms, but=name))
        return max(1, self._limit.rate * ROUND_MS // self._limit.period_ms // (1 + others))

    def _room(self, rate: RateLimit, now_ms: int) -> int:
        """T1: what the rate allows by then."""
        return rate.free(max(self._at_ms, now_ms + AHEAD_MS))

    def _again_ms(self, rate: RateLimit, now_ms: int) -> int:
        """There are none before that; 0: there are some."""
        has_some = self._at_ms <= now_ms + AHEAD_MS and self._room(rate, now_ms)
        return 0 if has_some else max(SOON_MS, rate.next_ms(self._at_ms) - AHEAD_MS - now_ms)

    def _served(self, name: str, tokens: int, rate: RateLimit, now_ms: int) -> TokenGrant:
        self._at_ms = rate.next_ms(self._at_ms, tokens)
        rate.sent(tokens, self._at_ms)
        self._bunches += 1
        after_ms = self._at_ms - now_ms
        self._drawers[name] = _Drawer(now_ms + after_ms + FORGET_MS, self._bunches)
        return TokenGrant(tokens, after_ms, 0)
