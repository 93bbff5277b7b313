"""What is kept in columns and what in a dictionary is one count."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timerd.services.engine.minute_counts import MOST_COLUMNS, MinuteCounts

MINUTES = st.lists(st.integers(0, 9), min_size=1, max_size=9)
STEPS = st.one_of(MINUTES.map(lambda m: ("few", m)), MINUTES.map(lambda m: ("many", m)), st.just(("ask", [0])))


def test_many_columns_are_made_one() -> None:
    counts = MinuteCounts()
    for number in range(3 * MOST_COLUMNS):
        counts.add_many(np.array([number, 7, 7]))
    assert counts.counts() == Counter(range(3 * MOST_COLUMNS)) + Counter({7: 6 * MOST_COLUMNS})


@given(st.lists(STEPS, min_size=MOST_COLUMNS, max_size=4 * MOST_COLUMNS), st.integers(0, 12))
def test_every_minute_is_counted_once(steps: list[tuple[str, list[int]]], gone: int) -> None:
    counts, told = MinuteCounts(), Counter[int]()
    for kind, minutes in steps:
        if kind == "ask":
            assert counts.counts() == told
            continue
        told.update(minutes)
        if kind == "few":
            counts.add_few(minutes)
        else:
            counts.add_many(np.array(minutes))
    counts.take_off(gone, 3)
    told[gone] -= 3
    assert counts.counts() == told
