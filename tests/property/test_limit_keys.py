"""Limit keys through random rows, takes, ends and changes of what they may: each row comes once, none above a limit,
none that may go is left, and no key is behind by more than a turn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from timerd.core.fairness import KeyedRows, KeyRoom, LimitKeys, Pick
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template

QUEUE = QueueKey("default", "mail")
KEYS = ("a", "b", "c", "")
TEMPLATES = [Template(*QUEUE, priority, limit_key=key) for key in KEYS for priority in (0, 3)]
PARTITIONS = [Partition(TIME_SCOPE, 0, shard) for shard in range(2)]


class Allowed:
    """Implements KeyLimits: so many of each key in hand, all of them by their share or by their limit."""

    def __init__(self) -> None:
        self.most = 2
        self.in_hand: Counter[str] = Counter()
        self.told: dict[str, Callable[[], None]] = {}
        self.is_shared = False
        self.object = object()

    def rules(self, _: QueueKey) -> object:
        return self.object

    def share(self, _: QueueKey) -> int:
        return self.most

    def room(self, _: QueueKey, limit_key: str, picked: int, __: int) -> KeyRoom:
        return KeyRoom(max(0, self.most - self.in_hand[limit_key] - picked), math.inf, self.is_shared)

    def weight(self, _: QueueKey, limit_key: str, __: int) -> float:
        return 1.0

    def sent(self, _: QueueKey, limit_key: str, tasks: int, __: int) -> None:
        """In hand they are when the take is over."""

    def on_less(self, _: QueueKey, limit_key: str, told: Callable[[], None]) -> None:
        self.told[limit_key] = told

    def end(self, limit_key: str) -> None:
        self.in_hand[limit_key] -= 1
        if told := self.told.pop(limit_key, None):
            told()


class TakingTurns(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.touched: set[QueueKey] = set()
        self.keys, self.allowed = LimitKeys(self.touched), Allowed()
        self.keys.goes_by(self.allowed)
        self.shut: set[Partition] = set()
        self.keys.on_given(lambda: None, lambda partition: partition not in self.shut)
        self.back: list[RowGroup] = []
        self.homes = [KeyedRows(partition, self.keys, self.back.append) for partition in PARTITIONS]
        self.waiting: Counter[str] = Counter()
        self.number = 0
        self.is_unheard = False
        # Of each two keys, how many of the first were sent since the second one had something to send, unbroken.
        self.passed: Counter[tuple[str, str]] = Counter()

    @rule(home=st.integers(0, 1), kinds=st.lists(st.integers(0, len(TEMPLATES) - 1), min_size=1, max_size=90))
    def file(self, home: int, kinds: list[int]) -> None:
        columns = np.zeros(len(kinds), ROW)
        columns["index"] = np.arange(self.number, self.number + len(kinds))
        columns["position_ms"], columns["template"] = 1_000 + columns["index"], kinds
        self.number += len(kinds)
        self.homes[home].file(QUEUE, RowGroup(columns, np.zeros(1, PREFIX), TEMPLATES, b"", []), 100 * len(kinds))
        self.waiting.update(TEMPLATES[kind].limit_key for kind in kinds)

    def may_go(self) -> set[str]:
        gives = any(home.partition not in self.shut and home.rows for home in self.homes)
        return {k for k in KEYS if gives and self.waiting[k] and self.allowed.in_hand[k] < self.allowed.most}

    @rule(most=st.integers(1, 12), kept_back=st.integers(0, 3))
    def take(self, most: int, kept_back: int) -> None:
        """Of what is picked a gate objects to some: they are over, and take no turn."""
        turn, self.is_unheard = self.keys.turn(QUEUE, 0), False
        picks = turn.pick(most)
        names = [chunk.limit_key(row) for chunk, row in picks]
        self.waiting.subtract(names)
        sent = names[kept_back:]
        turn.taken(Counter(sent))
        turn.end()
        self.allowed.in_hand.update(sent)
        assert all(self.allowed.in_hand[key] <= self.allowed.most for key in sent)
        if not self.shut and len(picks) < most:
            assert not self.may_go() - set(names[:kept_back])
        self._judge_order(picks)
        self._judge_turns(sent)

    def _judge_order(self, picks: list[Pick]) -> None:
        """Of one key and partition the first ones."""
        left = [(c, r) for home in self.homes for c in home._chunks for r in c.numbers().tolist()]
        for chunk, row in picks:
            key, order = chunk.limit_key(row), int(chunk.order[row])
            own = [int(c.order[r]) for c, r in left if c.home is chunk.home and c.limit_key(r) == key]
            assert not own or order <= min(own)

    def _judge_turns(self, sent: list[str]) -> None:
        """A key that has something to send, and may, is passed by another one once, and once more at a tie."""
        for key in sent:
            for other in KEYS:
                self.passed[other, key] = 0
                if other != key:
                    self.passed[key, other] += 1
        free = self.may_go()
        for pair in list(self.passed):
            if pair[1] not in free:
                self.passed[pair] = 0
        assert all(times <= 3 for times in self.passed.values()), self.passed

    @rule(key=st.sampled_from(KEYS))
    def end_one(self, key: str) -> None:
        if self.allowed.in_hand[key]:
            self.allowed.end(key)

    @rule(most=st.integers(1, 6), is_shared=st.booleans(), is_rule=st.booleans())
    def change(self, most: int, is_shared: bool, is_rule: bool) -> None:
        """By a rule, or since the share of a key has changed."""
        if is_rule:
            self.allowed.object = object()
        elif not (self.allowed.is_shared and is_shared):
            return
        # A rule is heard of by the next take, or when somebody says so; a share that has grown by who asks.
        self.is_unheard = True
        self.allowed.most, self.allowed.is_shared = most, is_shared
        self.passed.clear()

    @rule(home=st.integers(0, 1), until_ms=st.integers(1_000, 1_200), drops=st.booleans())
    def leave(self, home: int, until_ms: int, drops: bool) -> None:
        """Rows go to the backlog, or the partition is let go of."""
        if drops:
            self.homes[home].drop_all()
        else:
            self.homes[home].take_out(until_ms)
        self.passed.clear()
        self._recount()

    @rule(home=st.integers(0, 1))
    def shut_or_open(self, home: int) -> None:
        self.shut ^= {PARTITIONS[home]}
        self.passed.clear()

    @rule()
    def tidy(self) -> None:
        for home in self.homes:
            home.tidy()

    @invariant()
    def counts(self) -> None:
        self._recount_if_given_back()
        found = Counter(
            chunk.limit_key(row) for home in self.homes for chunk in home._chunks for row in chunk.numbers().tolist()
        )
        assert found == +self.waiting
        assert {key: self.keys.waiting(QUEUE, key) for key in found} == found
        assert [home.rows for home in self.homes] == [sum(c.count for c in home._chunks) for home in self.homes]
        assert all(abs(home.size_bytes - 100 * home.rows) < 1 for home in self.homes)
        free = self.may_go()
        if free and not self.shut and not self.is_unheard:
            assert self.keys.next_ms(QUEUE) <= 0

    def _recount_if_given_back(self) -> None:
        if self.back:
            self.back.clear()
            self._recount()

    def _recount(self) -> None:
        self.back.clear()
        self.waiting = Counter(
            chunk.limit_key(row) for home in self.homes for chunk in home._chunks for row in chunk.numbers().tolist()
        )


def test_keys_take_turns_whatever_happens() -> None:
    run_state_machine_as_test(TakingTurns, settings=settings(max_examples=40, stateful_step_count=25))
