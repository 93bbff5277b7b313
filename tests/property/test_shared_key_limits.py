"""Limits that each key has for itself, over queues that share them, through random rows, takes, ends and changes.

No key is above one of its limits, none starts faster than a rate, nobody who may go is forgotten, and nothing is left
behind."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from timerd.core.dispatch import DeliveryMachine
from timerd.core.fairness import KeyedRows, LimitKeys
from timerd.core.regulation import AllRules, KeyRates, KnownRules, RuleKeyLimits, SharedKeyLimits
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.regulations import KeyRules, QueueLimit, Regulation
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template

QUEUES = [QueueKey("default", name) for name in ("a", "b", "c")]
KEYS = ("ann", "bob", "")
NAMES = ("partner", "mail")
queues, keys, names = st.sampled_from(QUEUES), st.sampled_from(KEYS), st.sampled_from(NAMES)
hands = st.builds(QueueLimit, st.integers(1, 4))
rates = st.builds(QueueLimit, st.integers(0, 4), st.integers(1, 40), st.just(1_000), st.integers(1, 3))
some = hands | rates
own = st.dictionaries(st.sampled_from(KEYS[:2]), st.none() | some, max_size=1)


class SharingByKey(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.news, self.number = 1_700_000_000_000, 1, 0
        self.known = KnownRules()
        self.known.read(AllRules(), self.known.life)
        self.machine, self.keys = DeliveryMachine(b"s" * 32, 0), LimitKeys(set())
        self.machine.key_hands.queues = set(QUEUES)
        counted = KeyRates()
        of_queues = RuleKeyLimits(self.known, self.machine, self.keys, counted)
        self.limits = SharedKeyLimits(self.known, self.machine, self.keys, of_queues, counted)
        self.keys.queues.update(QUEUES)
        self.home = KeyedRows(Partition(TIME_SCOPE, 0, 0), self.keys, lambda _: None)
        self.waiting: Counter[tuple[QueueKey, str]] = Counter()
        self.in_hand: Counter[tuple[QueueKey, str]] = Counter()
        self.named: dict[str, tuple[QueueLimit, dict[str, QueueLimit | None]]] = {}
        # Starts that count, by limit and key, since the limit was as it is now, and all counted.
        self.starts: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for name in NAMES:
            self.put_limit(name, QueueLimit(2), {})
        for queue in QUEUES:
            self.put_queue(queue, set(NAMES[:1]))

    @initialize()
    def begin(self) -> None:
        for queue in QUEUES:
            self.file(queue, list(KEYS) * 4)

    def limit(self, name: str, key: str) -> QueueLimit | None:
        limit, overrides = self.named[name]
        return overrides.get(key, limit) if key else None

    def listed(self, queue: QueueKey) -> tuple[str, ...]:
        return self.known.of(queue).limits

    def open(self, name: str, key: str) -> int:
        return sum(self.in_hand[queue, key] for queue in QUEUES if name in self.listed(queue))

    @rule(queue=queues, of=st.lists(keys, min_size=1, max_size=8))
    def file(self, queue: QueueKey, of: list[str]) -> None:
        columns = np.zeros(len(of), ROW)
        columns["index"] = np.arange(self.number, self.number + len(of))
        columns["position_ms"], columns["template"] = columns["index"], [KEYS.index(key) for key in of]
        self.number += len(of)
        templates = [Template(*queue, limit_key=key) for key in KEYS]
        self.home.file(queue, RowGroup(columns, np.zeros(1, PREFIX), templates, b"", []), 100 * len(of))
        self.waiting.update((queue, key) for key in of)

    @rule(queue=queues, most=st.integers(1, 9), kept_back=st.integers(0, 2))
    def take(self, queue: QueueKey, most: int, kept_back: int) -> None:
        """As services/engine/taking_turns.py: what is cancelled is not sent."""
        turn = self.keys.turn(queue, self.now_ms)
        picked = [chunk.limit_key(row) for chunk, row in turn.pick(most)]
        self.waiting.subtract((queue, key) for key in picked)
        sent = Counter(picked[kept_back:])
        turn.taken(sent)
        turn.end()
        for key, tasks in sent.items():
            self.machine.key_hands.of(queue, key).begin(tasks, self.now_ms)
            self.in_hand[queue, key] += tasks
            for name in self.listed(queue):
                self.starts.setdefault((name, key), []).append((self.now_ms, tasks))
                limit = self.limit(name, key)
                assert limit is None or not limit.max_in_hand or self.open(name, key) <= limit.max_in_hand

    @rule(queue=queues, key=keys)
    def end(self, queue: QueueKey, key: str) -> None:
        if self.in_hand[queue, key]:
            self.in_hand[queue, key] -= 1
            self.machine.key_hands.of(queue, key).end("acked", 1, self.now_ms, self.now_ms)

    @rule(pause_ms=st.integers(1, 700))
    def wait(self, pause_ms: int) -> None:
        self.now_ms += pause_ms

    @rule(name=names, limit=some, overrides=own)
    def put_limit(self, name: str, limit: QueueLimit, overrides: dict[str, QueueLimit | None]) -> None:
        self.news += 1
        self.named[name] = limit, overrides
        self.starts = {of: each for of, each in self.starts.items() if of[0] != name}
        named = LimitName("default", name)
        self.known.heard_limit(named, NamedLimit(self.news, limit).by_key(tuple(overrides.items())))
        self.limits.opened(self.known.listed_by(named))

    @rule(queue=queues, listed=st.sets(names))
    def put_queue(self, queue: QueueKey, listed: set[str]) -> None:
        self.news += 1
        rules = Regulation(self.news, limits=tuple(sorted(listed)), keys=KeyRules(share=1))
        self.known.heard(queue, rules)
        self.limits.opened([queue])

    @invariant()
    def no_window_has_more_than_the_rate_and_a_burst(self) -> None:
        for (name, key), starts in self.starts.items():
            limit = self.limit(name, key)
            if limit is None or not limit.rate:
                continue
            for at, (first_ms, _) in enumerate(starts):
                sent = sum(tasks for _, tasks in starts[at:])
                assert sent <= Fraction((self.now_ms - first_ms) * limit.rate, limit.period_ms) + limit.burst

    @invariant()
    def who_may_go_is_looked_at(self) -> None:
        for queue, key in +self.waiting:
            is_full = any(
                limit is not None and limit.max_in_hand and self.open(name, key) >= limit.max_in_hand
                for name in self.listed(queue)
                for limit in [self.limit(name, key)]
            )
            if not is_full and not self.limits.held_back(queue, key, self.now_ms):
                assert self.keys.next_ms(queue) <= self.now_ms, (queue, key)
            if is_full:
                assert self.limits.held_back(queue, key, self.now_ms)

    def teardown(self) -> None:
        """When all has ended nothing is kept of anybody."""
        for (queue, key), tasks in list((+self.in_hand).items()):
            for _ in range(tasks):
                self.end(queue, key)
        assert len(self.machine.key_hands) == 0


def test_who_waits_for_another_queue_is_told() -> None:
    """Two of a key may be in hand, of all three queues together."""
    world = SharingByKey()
    a, b, c = QUEUES
    for queue in QUEUES:
        world.file(queue, ["ann", "ann"])
        world.take(queue, 9, 0)
    assert [world.in_hand[queue, "ann"] for queue in QUEUES] == [2, 0, 0]
    assert [world.keys.next_ms(queue) for queue in (b, c)] == [math.inf, math.inf]
    world.end(a, "ann")
    world.who_may_go_is_looked_at()
    world.take(b, 9, 0)
    world.take(c, 9, 0)
    assert [world.in_hand[queue, "ann"] for queue in QUEUES] == [1, 1, 0]
    world.end(b, "ann")
    world.who_may_go_is_looked_at()
    world.take(c, 9, 0)
    assert [world.in_hand[queue, "ann"] for queue in QUEUES] == [1, 0, 1]
    world.teardown()


def test_no_key_is_above_its_limit_and_none_is_forgotten() -> None:
    run_state_machine_as_test(SharingByKey, settings=settings(max_examples=50, stateful_step_count=30))
