"""Queues that share limits, through random sends, ends and changes: never one above a limit, nobody held back for
nothing, and nobody who waits for an end is forgotten."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from timerd.core.dispatch import HandCount, Slice
from timerd.core.regulation import AllRules, KnownRules, RuleLimits
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import QueueLimit, Regulation

QUEUES = [QueueKey("default", name) for name in ("a", "b", "c")]
NAMES = ["stripe", "mail"]
queues = st.sampled_from(QUEUES)
hands = st.builds(QueueLimit, st.integers(1, 6))
rates = st.builds(QueueLimit, st.integers(0, 6), st.integers(1, 40), st.just(1_000), st.integers(1, 5))
some = hands | rates


class Sharing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.news = 1_700_000_000_000, 0
        self.known = KnownRules()
        self.known.read(AllRules(), self.known.life)
        self.hands = {queue: HandCount() for queue in QUEUES}
        # Who was told of nothing since it was held back for others that are in hand.
        self.waiting: set[QueueKey] = set()
        self.limits = RuleLimits(self.known, self.hands.get, self.waiting.difference_update)
        self.own: dict[QueueKey, QueueLimit | None] = dict.fromkeys(QUEUES)
        self.listed: dict[QueueKey, tuple[str, ...]] = dict.fromkeys(QUEUES, ())
        self.named = {name: QueueLimit(max_in_hand=4) for name in NAMES}
        # Starts that count, by limit, since it was as it is now: (ms, tasks).
        self.starts: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}
        for name, limit in self.named.items():
            self.known.heard_limit(LimitName("default", name), NamedLimit(1, limit))

    def in_hand(self, name: str) -> int:
        return sum(self.hands[queue].open for queue in QUEUES if name in self.listed[queue])

    @rule(queue=queues, tasks=st.integers(1, 9))
    def send(self, queue: QueueKey, tasks: int) -> None:
        allowed = self.limits.allow(queue, tasks, self.now_ms)
        if not allowed.tasks:
            assert self.limits.held_back(queue, self.now_ms)
            if allowed.next_ms == math.inf:
                self.waiting.add(queue)
            return
        self.hands[queue].open += allowed.tasks
        self.limits.sent(Slice(queue, self.now_ms, allowed.tasks, 1, 1, is_dry=False, is_all=False))
        for name in self.listed[queue]:
            self.starts[name].append((self.now_ms, allowed.tasks))
            most = self.named[name].max_in_hand
            assert not most or self.in_hand(name) <= most
        own = self.own[queue]
        assert own is None or not own.max_in_hand or self.hands[queue].open <= own.max_in_hand

    @rule(queue=queues)
    def end(self, queue: QueueKey) -> None:
        if self.hands[queue].open:
            self.hands[queue].less(1)

    @rule(pause_ms=st.integers(1, 700))
    def wait(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    @rule(queue=queues, own=st.none() | some, listed=st.sets(st.sampled_from(NAMES)))
    def put_queue(self, queue: QueueKey, own: QueueLimit | None, listed: set[str]) -> None:
        self.news += 1
        self.own[queue], self.listed[queue] = own, tuple(sorted(listed))
        self.known.heard(queue, Regulation(self.news, limit=own, limits=self.listed[queue]))
        self.waiting -= {queue, *self.limits.changed()}

    @rule(name=st.sampled_from(NAMES), limit=some)
    def put_limit(self, name: str, limit: QueueLimit) -> None:
        self.news += 1
        self.named[name], self.starts[name] = limit, []
        self.known.heard_limit(LimitName("default", name), NamedLimit(self.news + 1, limit))
        self.waiting -= self.limits.changed()

    @invariant()
    def no_window_has_more_than_the_rate_and_a_burst(self) -> None:
        for name, limit in self.named.items():
            starts = self.starts[name] if limit.rate else []
            for at, (first_ms, _) in enumerate(starts):
                sent = sum(tasks for _, tasks in starts[at:])
                assert sent <= Fraction((self.now_ms - first_ms) * limit.rate, limit.period_ms) + limit.burst

    @invariant()
    def who_waits_for_an_end_waits_for_something(self) -> None:
        for queue in self.waiting:
            assert self.limits.held_back(queue, self.now_ms)


TestSharing = Sharing.TestCase
