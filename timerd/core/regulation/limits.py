"""What the rules of a queue allow: nothing while it is paused, and no more than its limits. One look-up a slice.

It is a limit of delivery and not a gate: a gate would take each due row out of its run to put it back, again and again,
and a limit leaves all of them where they are. Counted is what was sent, retries included, and not what turned out to be
cancelled or expired. A queue has a limit of its own, and those that it lists by name, which count for all queues that
list them: it takes from all of them in one step, or from none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation.draw_order import DrawOrder
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.lent_limits import LentLimits
from timerd.core.regulation.lent_rates import LentRates
from timerd.core.regulation.limit_count import LimitCount
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitLabels
from timerd.model.named_limits import LimitName
from timerd.model.regulations import Order, QueueLimit, Regulation

# A queue that may start one in so long, or fewer, starts few: by then a token of another rate may be there or not.
FEW_MS = 200
# While keys of such a queue wait with its tokens it is looked at so often.
LOOK_MS = 50


class Why(StrEnum):
    """What holds a queue back. LIMIT: as many as it allows have started, or are in hand. THROTTLED: what a handler has
    asked told it to wait. BREAKER: its attempts have failed. KEY: as many of its limit key as the queue allows each;
    SHARE: as many as the share of a key; KEY_THROTTLED: a handler was told to wait with tasks of a key. ADAPTIVE: as
    many are in hand as its target bears, by what it has shown."""

    LIMIT = "limit"
    THROTTLED = "throttled"
    BREAKER = "breaker"
    KEY = "key"
    SHARE = "share"
    KEY_THROTTLED = "key_throttled"
    ADAPTIVE = "adaptive"


class HeldBack(NamedTuple):
    """`until_ms`: when the limit lets one more go; infinite: when a worker has ended one. `limit`: its name, empty for
    the queue's own; of KEY, SHARE and KEY_THROTTLED the limit key. `keyed`: the name of the limit that each key has for
    itself; empty: it is that of the queue."""

    until_ms: float
    limit: str
    why: Why = Why.LIMIT
    keyed: str = ""


class _Applied(NamedTuple):
    """What a queue goes by, made of these rules at that time. No counts: it lists a limit that is not understood."""

    rules: Regulation
    news: int
    counts: Sequence[LimitCount] | None


class RuleLimits:
    """Implements core.dispatch.Limit. `hand`: what workers have of a queue, None where they have nothing. `opened`: is
    told of queues that were held back, when workers have less of something than they had. `doubt_ms`: until when nobody
    knows what workers have from before a restart, now or later. `lent`: where other instances send by these limits."""

    def __init__(
        self,
        known: KnownRules,
        hand: Callable[[QueueKey], HandCount | None],
        opened: Callable[[Collection[QueueKey]], None],
        doubt_ms: Callable[[int], float] = float,
        lent: LentLimits | None = None,
        rates: LentRates | None = None,
    ) -> None:
        self._known = known
        self._lent = lent
        self._rates = rates
        self._doubt_ms = doubt_ms
        self._hand = hand
        self._opened = opened
        self._order: DrawOrder | None = None
        self._opens_ms: Callable[[QueueKey, int, int], float] = lambda _, __, ___: -math.inf
        self._own: dict[QueueKey, LimitCount] = {}
        self._named: dict[LimitName, LimitCount] = {}
        self._applied: dict[QueueKey, _Applied] = {}

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        rules = self._known.find(queue)
        if rules is None:
            return Allowance(tasks, now_ms)
        opens_ms = rules.opens_ms(now_ms)
        if opens_ms > now_ms:
            return Allowance(0, opens_ms)
        if not rules.is_limited:
            self._leave(queue)
            return Allowance(tasks, now_ms)
        counts = self._counts(queue, rules, now_ms)
        return Allowance(0, math.inf) if counts is None else self._within(counts, queue, tasks, now_ms)

    def held_back(self, queue: QueueKey, now_ms: int) -> list[HeldBack]:
        """By which of its limits, the one that does so for longest first. None of them: they allow one more now."""
        rules = self._known.find(queue)
        if rules is None or not rules.is_limited:
            return []
        counts = self._counts(queue, rules, now_ms)
        if counts is None:
            return [HeldBack(math.inf, "")]
        # Where they are lent, none is here as long as nobody wants one.
        short = [count for count in counts if self._lent is None or queue in count.waiting]
        asked = [(self._allowed(count, 1, now_ms), count.name) for count in short]
        return sorted([HeldBack(each.next_ms, name) for each, name in asked if not each.tasks], reverse=True)

    def sent(self, sent: Slice) -> float:
        applied = self._applied.get(sent.queue) if self._applied else None
        if applied is None or applied.counts is None:
            return sent.now_ms
        if self._lent is not None:
            for count in applied.counts:
                self._lent.used(count.labels)
        return max((count.sent(sent.tasks, sent.now_ms) for count in applied.counts), default=sent.now_ms)

    def draws_by(self, order: DrawOrder, opens_ms: Callable[[QueueKey, int, int], float]) -> None:
        """Of queues that may start few, whose limit keys draw tokens as well. `opens_ms`: when one of the keys may go,
        as far as is known, where up to so many of them draw now."""
        self._order, self._opens_ms = order, opens_ms

    def granted(self, labels: LimitLabels) -> None:
        """More may be sent by it than before, or it is known when."""
        count = self._find(labels)
        if count is not None:
            self._opened(set(count.waiting))

    def has_rate(self, labels: LimitLabels) -> bool:
        """Whether it is used here and has one."""
        count = self._find(labels)
        return count is not None and count.rate is not None

    def forget(self, queue: QueueKey) -> None:
        """What was sent counts, whether its workers are still there or not."""
        for count in self._counted(queue):
            count.waiting.discard(queue)

    def changed(self) -> set[QueueKey]:
        """Rules are other ones than before. Returns the queues that were held back until then."""
        waiting: set[QueueKey] = set()
        for count in (*self._own.values(), *self._named.values()):
            count.is_watched = False
            waiting |= count.waiting
        return waiting

    def used(self) -> list[LimitLabels]:
        """Limits by which something was sent or held back."""
        own = [LimitLabels(*queue, "") for queue in self._own]
        return own + [LimitLabels(name.namespace, "", name.limit) for name in self._named]

    def count_of(self, labels: LimitLabels) -> LimitCount:
        """Of one that is used."""
        namespace, queue, limit = labels
        return self._named[LimitName(namespace, limit)] if limit else self._own[QueueKey(namespace, queue)]

    def in_hand_of(self, queues: Iterable[QueueKey]) -> int:
        """Deliveries of theirs that workers have."""
        hands = map(self._hand, queues)
        return sum(hand.open for hand in hands if hand is not None)

    def next_ms_of(self, name: LimitName, now_ms: int) -> int:
        """When the rate of a limit allows one more start: `now_ms`, or later."""
        count = self._named.get(name)
        next_ms = now_ms if count is None or count.rate is None else count.rate.next_ms(now_ms)
        return int(next_ms) if now_ms < next_ms < math.inf else now_ms

    # -- inside ---------------------------------------------------------------------------------------------------

    def _find(self, labels: LimitLabels) -> LimitCount | None:
        found = self._named.get(LimitName(labels.namespace, labels.limit)) if labels.limit else None
        return found or self._own.get(QueueKey(labels.namespace, labels.queue))

    def _within(self, counts: Sequence[LimitCount], queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        """Of several that allow nothing, the one that does so for longest says when to ask again."""
        least, short = tasks, dict[LimitCount, float]()
        for count in counts:
            allowed = self._allowed(count, tasks, now_ms)
            least = min(least, allowed.tasks)
            if allowed.tasks:
                count.waiting.discard(queue)
                continue
            count.hold_back(queue)
            short[count] = allowed.next_ms
            if allowed.next_ms == math.inf:
                self._watch(count)
        allowed = Allowance(least, max(short.values(), default=now_ms))
        if self._lent is None or self._rates is None:
            return allowed
        if self._order is not None and _starts_few(counts) and not self._shares_keys(queue):
            coming = min(self._rates.coming(count.labels) for count in counts if count.rate is not None)
            allowed = Allowance(self._order.allow(queue, coming, least), now_ms + LOOK_MS)
            return self._of_few(queue, short, self._order.left(queue), now_ms) if short else allowed
        if self._order is not None:
            self._order.forget(queue)
        if short and (scarcest := self._lacks(short, self._lent)) is not None:
            self._rates.want(scarcest.labels)
        return allowed

    def _shares_keys(self, queue: QueueKey) -> bool:
        """With a queue that may have each token of a key as soon as there is one: who looks first is too late."""
        names = [LimitName(queue.namespace, limit) for limit in self._known.of(queue).limits]
        return any(self._known.is_keyed(name) and len(self._known.listed_by(name)) > 1 for name in names)

    def _of_few(self, queue: QueueKey, short: Mapping[LimitCount, float], draws: int, now_ms: int) -> Allowance:
        """A token that none of the keys could use is not drawn, for another instance would miss it. For one that begins
        soon a key draws its own meanwhile."""
        assert self._rates is not None
        assert self._lent is not None
        if self._lacks(short, self._lent) is None:
            return Allowance(0, max(short.values()))
        lacking = [count for count in short if not self._rates.coming(count.labels)]
        if not lacking:
            if draws:
                self._opens_ms(queue, draws, now_ms)
            return Allowance(0, max(short.values()))
        scarcest = _scarcest(lacking)
        if short[scarcest] < math.inf:
            return Allowance(0, short[scarcest])
        if (opens_ms := self._opens_ms(queue, 0, now_ms)) > now_ms:
            return Allowance(0, opens_ms)
        self._rates.want(scarcest.labels)
        return Allowance(0, math.inf)

    def _lacks(self, short: Collection[LimitCount], lent: LentLimits) -> LimitCount | None:
        """Permits first, for they stay, then the tokens of the lowest rate: one that another limit holds back would
        lapse. Returns the limit of that rate; None: permits are waited for."""
        full = [each for each in short if each.rate is None or (each.limit.max_in_hand and not lent.free(each.labels))]
        for count in full:
            lent.want(count.labels)
        return None if full else _scarcest(short)

    def _allowed(self, count: LimitCount, tasks: int, now_ms: int) -> Allowance:
        if not count.limit.max_in_hand:
            return count.allow(tasks, 0, now_ms)
        if self._lent is None and count.is_from_before and (known_ms := self._doubt_ms(now_ms)) > now_ms:
            return Allowance(0, known_ms)
        in_hand = self.in_hand_of(count.queues)
        if self._lent is not None:
            in_hand = max(in_hand, count.limit.max_in_hand - self._lent.free(count.labels))
        return count.allow(tasks, in_hand, now_ms)

    def _watch(self, count: LimitCount) -> None:
        """Nothing more is sent by it until one of its deliveries has ended, so all of them are known now."""
        if count.is_watched:
            return
        count.is_watched = True
        for queue in count.queues:
            if (hand := self._hand(queue)) is not None:
                hand.on_less = partial(self._less, queue)

    def _less(self, queue: QueueKey) -> None:
        """Workers have less of the queue than they had."""
        waiting: set[QueueKey] = set()
        for count in self._counted(queue):
            count.is_watched = False
            waiting |= count.waiting
        self._opened(waiting)

    def _counted(self, queue: QueueKey) -> list[LimitCount]:
        """Where what is sent of the queue counts."""
        names = [LimitName(queue.namespace, name) for name in self._known.of(queue).limits]
        found = [self._own.get(queue), *map(self._named.get, names)]
        return [count for count in found if count is not None]

    def _counts(self, queue: QueueKey, rules: Regulation, now_ms: int) -> Sequence[LimitCount] | None:
        """None: it lists a limit that nobody understands here."""
        known = self._applied.get(queue)
        if known is not None and known.rules is rules and known.news == self._known.news:
            return known.counts
        counts = self._made(queue, rules, now_ms)
        if known is not None:
            _left(queue, known.counts, counts)
        self._applied[queue] = _Applied(rules, self._known.news, counts)
        return counts

    def _made(self, queue: QueueKey, rules: Regulation, now_ms: int) -> list[LimitCount] | None:
        """As they are by now."""
        counts: list[LimitCount] = []
        if rules.limit is None:
            self._own.pop(queue, None)
        else:
            is_from_before = self._known.is_from_before(queue)
            own = self._own.get(queue)
            if own is None:
                own = self._new(LimitLabels(*queue, ""), rules.limit, (queue,), is_from_before=is_from_before)
                self._own[queue] = own
            own.go_by(rules.limit, now_ms)
            counts.append(own)
        for name in (LimitName(queue.namespace, each) for each in rules.limits):
            if self._known.is_keyed(name):
                # Counted by SharedKeyLimits, where keys take turns: else nothing goes.
                if rules.order == Order.EDF:
                    return None
                self._named.pop(name, None)
            elif (count := self._made_named(name, now_ms)) is None:
                return None
            else:
                counts.append(count)
        return counts

    def _made_named(self, name: LimitName, now_ms: int) -> LimitCount | None:
        kept = self._known.limit(name)
        if kept is None or kept.limit is None or not kept.is_understood:
            return None
        count = self._named.get(name)
        if count is None:
            is_from_before = self._known.was_there_before(name)
            labels = LimitLabels(name.namespace, "", name.limit)
            count = self._new(labels, kept.limit, self._known.listed_by(name), is_from_before=is_from_before)
            self._named[name] = count
        count.go_by(kept.limit, now_ms)
        return count

    def _new(
        self, labels: LimitLabels, limit: QueueLimit, queues: Collection[QueueKey], *, is_from_before: bool
    ) -> LimitCount:
        lent_rate = self._rates.rate(labels) if self._rates is not None else None
        return LimitCount(labels, limit, queues, is_from_before, lent_rate)

    def _leave(self, queue: QueueKey) -> None:
        """It has no limits any more."""
        if self._applied and (known := self._applied.pop(queue, None)) is not None:
            _left(queue, known.counts, ())
        self._own.pop(queue, None)
        if self._order is not None:
            self._order.forget(queue)


def _scarcest(counts: Iterable[LimitCount]) -> LimitCount:
    return min(counts, key=lambda count: count.limit.rate / count.limit.period_ms)


def _starts_few(counts: Iterable[LimitCount]) -> bool:
    rated = [count.limit for count in counts if count.rate is not None]
    return any(limit.rate * FEW_MS <= limit.period_ms for limit in rated)


def _left(queue: QueueKey, before: Sequence[LimitCount] | None, now: Sequence[LimitCount] | None) -> None:
    """It waits for none of those that it does not list any more."""
    for count in before or ():
        if now is None or count not in now:
            count.waiting.discard(queue)
