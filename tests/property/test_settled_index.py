"""The index of what ended against a dict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from timerd.core.partition import settled_index
from timerd.core.partition.settled_index import SettledIndex, keys_in
from timerd.model.identity import RowKey, digest_of
from timerd.model.rows import RowGroup, concat, single_row
from timerd.model.settle import Outcome, settle_entries
from timerd.model.task import NO_EXTRA, Template

keys = st.builds(
    RowKey,
    st.integers(0, 40),
    st.builds(digest_of, st.sampled_from([b"p" * 12, b"q" * 12]), st.integers(0, 3)),
    st.integers(0, 3),
)
endings = st.dictionaries(keys, st.sampled_from(Outcome), min_size=1, max_size=10)


def rows_of(wanted: list[RowKey]) -> RowGroup:
    return concat([single_row(k, k.position_ms, Template("n", "q"), b"", NO_EXTRA, 0) for k in wanted])


class IndexModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = SettledIndex()
        self.known: dict[RowKey, Outcome] = {}
        self.fresh: list[tuple[RowKey, Outcome]] = []
        self.forgotten = 0
        self.total = 0

    @rule(ended=endings)
    def add(self, ended: dict[RowKey, Outcome]) -> None:
        for key, outcome in ended.items():
            if key not in self.known:
                self.index.add([(key, outcome)])
                self.known[key] = outcome
                self.fresh.append((key, outcome))
                self.total += 1

    @rule()
    def seal(self) -> None:
        if self.fresh:
            self.index.seal([key for key, _ in self.fresh], settle_entries(self.fresh))
            self.fresh = []

    @rule(ended=endings)
    def load(self, ended: dict[RowKey, Outcome]) -> None:
        new = {k: o for k, o in ended.items() if k not in self.known}
        self.index.load(settle_entries(list(new.items())))
        self.known.update(new)
        self.total += len(new)

    @rule(ended=endings)
    def add_many(self, ended: dict[RowKey, Outcome]) -> None:
        new = {k: o for k, o in ended.items() if k not in self.known}
        if new:
            self.index.add_many(settle_entries(list(new.items())))
            self.known.update(new)
            self.total += len(new)

    @rule(verified_ms=st.integers(0, 45))
    def forget(self, verified_ms: int) -> None:
        if not self.fresh:
            below = self.index.counts_below(verified_ms)
            assert below.total() >= sum(k.position_ms < verified_ms for k in self.known)
            self.forgotten += self.index.forget_below(verified_ms).total()
            self.known = {k: o for k, o in self.known.items() if self.index.get(k) is not None}

    @rule(wanted=st.lists(keys, min_size=1, max_size=12))
    def ask(self, wanted: list[RowKey]) -> None:
        assert self.index.knows_any(wanted) == any(k in self.known for k in wanted)
        assert self.index.known(rows_of(wanted)).tolist() == [k in self.known for k in wanted]
        assert [self.index.get(k) for k in wanted] == [self.known.get(k) for k in wanted]

    @invariant()
    def counts_all(self) -> None:
        assert len(self.index) == len(self.known)
        assert self.index.counts().total() + self.forgotten == self.total


def test_forgetting_leaves_what_is_at_or_above_verified() -> None:
    index = SettledIndex()
    low, high = RowKey(5, b"a" * 16, 0), RowKey(50, b"b" * 16, 0)
    index.load(settle_entries([(low, Outcome.ACKED)]))
    index.load(settle_entries([(high, Outcome.DEAD)]))
    assert index.forget_below(50) == {Outcome.ACKED: 1}
    assert (index.get(low), index.get(high)) == (None, Outcome.DEAD)


def test_neighbours_of_one_message_are_told_apart() -> None:
    """Item n of version v + 1 and item n + 1 of version v differ in nothing else."""
    here = [RowKey(7, digest_of(b"m" * 12, n), v) for n, v in [(0, 1), (1, 0)]]
    index = SettledIndex()
    index.load(settle_entries([(here[0], Outcome.ACKED), (here[1], Outcome.DEAD)]))
    assert [index.get(key) for key in here] == [Outcome.ACKED, Outcome.DEAD]


def test_equal_hashes_are_told_apart() -> None:
    keys = [RowKey(n, digest_of(b"m" * 12, n), 0) for n in range(50)]
    chunk = settled_index._chunk(settle_entries([(k, Outcome.ACKED) for k in keys[::2]]))
    same = replace(chunk, hashes=np.zeros(25, np.uint64))
    wanted = settle_entries([(k, Outcome.ACKED) for k in keys])
    found = settled_index._find(same, np.zeros(50, np.uint64), wanted) >= 0
    assert found.tolist() == [n % 2 == 0 for n in range(50)]
    assert keys_in(rows_of(keys), [rows_of(keys[:3])]).sum() == 3
    assert not keys_in(rows_of(keys), [rows_of(keys[:3]).select(slice(0))]).any()


TestSettledIndex = IndexModel.TestCase
TestSettledIndex.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
