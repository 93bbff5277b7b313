"""The tokens of a rate that an instance has drawn from the keeper of the limit (rules T1 and T2 of
docs/understand/protocol.md).

A start uses a token up. What is not used lapses, so nothing goes back and nobody counts what is lost on the way. Only
lengths of time pass between instances: a token begins so long after its answer was heard, and ends so long after the
call for it was made. By any clock that is within a second of the instant at which the keeper has counted it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

# The promise has a second for it. The rest is for a turn of a busy loop between a look and the start.
TOKEN_MS = 950
# Who uses up what it has drawn in so long draws twice as much next time.
QUICK_MS = 250
# So long it is taken for true that the keeper has some.
SEEN_MS = 100
# Whatever the keeper has said it is asked again then: its rule may have changed, and it tells nobody.
ASKED_AGAIN_MS = 60_000


class TokenGrant(NamedTuple):
    """`tokens` that begin `after_ms` after this is heard. `again_ms`: none before that by the rule as it is, so it is
    asked again then, or after a minute."""

    tokens: int
    after_ms: int
    again_ms: int


@dataclass(slots=True)
class _Bunch:
    begin_ms: float
    end_ms: float
    drawn: int
    left: int


class DrawnTokens:
    """Of one limit at one instance. `wants`: something is held back for want of them. `looks`: it is to be found out
    whether there are any. `drawn`, `lapsed`: how many so far. Times are of a clock that is never set."""

    def __init__(self) -> None:
        self.wants = self.looks = False
        self.drawn = self.lapsed = 0
        self._bunches: deque[_Bunch] = deque()
        self._again_ms = -math.inf
        # When the keeper has said that it has some.
        self._seen_ms = -math.inf
        self._most = 1
        # Since a handler was throttled; and the keeper has heard of it.
        self._held_ms = self._told_ms = -math.inf

    def free(self, now_ms: float) -> int:
        """How many may start now."""
        self._drop(now_ms)
        return sum(each.left for each in self._bunches if each.begin_ms <= now_ms)

    def coming(self, now_ms: float) -> int:
        """How many may start now, or will when they begin."""
        self._drop(now_ms)
        return sum(each.left for each in self._bunches)

    def is_seen(self, now_ms: float) -> bool:
        """The keeper has some, as far as is known."""
        return now_ms < self._seen_ms + SEEN_MS

    def begins_ms(self, now_ms: float) -> float:
        """When there may be more; infinite: when the keeper has answered."""
        begins = [each.begin_ms for each in self._bunches if each.begin_ms > now_ms]
        return min(begins, default=self._again_ms if self._again_ms > now_ms else math.inf)

    def use(self, tokens: int, now_ms: float) -> None:
        """So many have started: those that end first are used first."""
        for bunch in self._bunches:
            used = min(tokens, bunch.left)
            bunch.left -= used
            tokens -= used
            if used and not bunch.left and now_ms < bunch.begin_ms + QUICK_MS:
                self._most = max(self._most, 2 * bunch.drawn)
        self._drop(now_ms)

    def is_due(self, now_ms: float) -> bool:
        """Whether the keeper is to be called: one bunch is waited for at a time."""
        return self.is_held_unsaid(now_ms) or ((self.wants or self.looks) and self.begins_ms(now_ms) == math.inf)

    def want(self, due: int) -> int:
        """How many to draw, where so many tasks are due or soon will be."""
        return max(1, min(due, self._most)) if self.wants else 0

    def granted(self, asked_ms: float, now_ms: float, grant: TokenGrant) -> None:
        """In answer to a call that was made then."""
        self._again_ms = now_ms + min(grant.again_ms, ASKED_AGAIN_MS)
        self.wants = self.looks = False
        self._seen_ms = -math.inf
        if grant.tokens:
            begin_ms, end_ms = now_ms + grant.after_ms, asked_ms + grant.after_ms + TOKEN_MS
            self._bunches.append(_Bunch(begin_ms, end_ms, grant.tokens, grant.tokens))
            self.drawn += grant.tokens

    def seen(self, now_ms: float, again_ms: int) -> None:
        """None were drawn: the keeper has some, or has none before so long."""
        self.looks = False
        self._again_ms = now_ms + min(again_ms, ASKED_AGAIN_MS)
        self._seen_ms = -math.inf if again_ms else now_ms
        self.wants = self.wants and not again_ms

    # -- when a service says: wait --------------------------------------------------------------------------------

    def hold(self, until_ms: float) -> None:
        self._held_ms = max(self._held_ms, until_ms)

    def held_for_ms(self, now_ms: float) -> int:
        """For how long the keeper is to hold the limit; 0: it has heard of it, or it is over."""
        return math.ceil(self._held_ms - now_ms) if self.is_held_unsaid(now_ms) else 0

    def is_held_unsaid(self, now_ms: float) -> bool:
        return self._held_ms > max(now_ms, self._told_ms)

    def told(self, now_ms: float, held_for_ms: int) -> None:
        """The keeper has heard of it."""
        self._told_ms = max(self._told_ms, now_ms + held_for_ms)

    def is_over(self, now_ms: float) -> bool:
        """It says nothing that one of which nothing was drawn would not say."""
        self._drop(now_ms)
        is_waited_for = bool(self._bunches) or self.wants or self.looks or self._again_ms > now_ms
        return not is_waited_for and self._held_ms <= now_ms

    def lapse(self) -> None:
        """Nothing more is sent by what there is."""
        self._bunches.clear()
        self.wants = False

    # -- inside ---------------------------------------------------------------------------------------------------

    def _drop(self, now_ms: float) -> None:
        """What is used up or over. Of what was not used less is drawn next time."""
        while self._bunches and (not self._bunches[0].left or self._bunches[0].end_ms <= now_ms):
            bunch = self._bunches.popleft()
            if bunch.left:
                self.lapsed += bunch.left
                self._most = max(1, bunch.drawn - bunch.left)
