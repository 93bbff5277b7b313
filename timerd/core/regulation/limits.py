"""What the rules of a queue allow: nothing while it is paused, and no more than its limit. One look-up a slice.

It is a limit of delivery and not a gate: a gate would take each due row out of its run to put it back, again and again,
and a limit leaves all of them where they are. Counted is what was sent, retries included, and not what turned out to be
cancelled or expired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.rate import RateLimit
from timerd.core.taken import QueueKey
from timerd.model.regulations import QueueLimit


class RuleLimits:
    """Implements core.dispatch.Limit. `hand`: what workers have of a queue. `opened`: is told of queues of which they
    have less than they had, where that was too much."""

    def __init__(
        self,
        known: KnownRules,
        hand: Callable[[QueueKey], HandCount],
        opened: Callable[[Collection[QueueKey]], None],
    ) -> None:
        self._known = known
        self._hand = hand
        self._opened = opened
        # Of queues that have one, by the limit that it was made for.
        self._rates: dict[QueueKey, tuple[QueueLimit, RateLimit]] = {}

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        rules = self._known.find(queue)
        if rules is None:
            return Allowance(tasks, now_ms)
        opens_ms = rules.opens_ms(now_ms)
        if opens_ms > now_ms:
            return Allowance(0, opens_ms)
        if rules.limit is None:
            self._rates.pop(queue, None)
            return Allowance(tasks, now_ms)
        return self._within(queue, rules.limit, tasks, now_ms)

    def limited_until_ms(self, queue: QueueKey, now_ms: int) -> float | None:
        """When the limit lets one more go; infinite: when a worker has ended one. None: the limit allows it now."""
        rules = self._known.find(queue)
        if rules is None or rules.limit is None:
            return None
        rate_ms = self._rate(queue, rules.limit, now_ms).next_ms(now_ms) if rules.limit.rate else now_ms
        until_ms = math.inf if self._room(queue, rules.limit, 1) <= 0 else rate_ms
        return until_ms if until_ms > now_ms else None

    def sent(self, sent: Slice) -> float:
        found = self._rates.get(sent.queue) if self._rates else None
        if found is None:
            return sent.now_ms
        found[1].sent(sent.tasks, sent.now_ms)
        return found[1].next_ms(sent.now_ms)

    def forget(self, queue: QueueKey) -> None:
        """What was sent counts, whether its workers are still there or not."""

    # -- inside ---------------------------------------------------------------------------------------------------

    def _within(self, queue: QueueKey, limit: QueueLimit, tasks: int, now_ms: int) -> Allowance:
        room, next_ms = self._room(queue, limit, tasks), float(now_ms)
        if limit.rate:
            rate = self._rate(queue, limit, now_ms)
            tasks, next_ms = min(tasks, rate.free(now_ms)), rate.next_ms(now_ms)
        else:
            self._rates.pop(queue, None)
        if room > 0:
            return Allowance(min(tasks, room), next_ms)
        self._hand(queue).on_less = lambda: self._opened([queue])
        return Allowance(0, math.inf)

    def _room(self, queue: QueueKey, limit: QueueLimit, tasks: int) -> int:
        return limit.max_in_hand - self._hand(queue).open if limit.max_in_hand else tasks

    def _rate(self, queue: QueueKey, limit: QueueLimit, now_ms: int) -> RateLimit:
        """As it is by now: made at the first look, and anew when the limit is another one."""
        found = self._rates.get(queue)
        if found is not None and found[0] == limit:
            return found[1]
        if found is not None:
            rate = found[1].changed(limit, now_ms)
        else:
            rate = RateLimit(limit, now_ms, is_full=not self._known.is_from_before(queue))
        self._rates[queue] = limit, rate
        return rate
