"""The order key of a task is its score, counted from now."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from timerd.core.urgency import Urgency, orders
from timerd.model.task import Template

NOW_MS = 1_800_000_000_000
urgencies = st.builds(Urgency, st.integers(0, 10), st.booleans())
ages = st.one_of(st.integers(0, 2_000), st.integers(0, 2_000_000))


def score(urgency: Urgency, age_ms: int) -> float:
    """Points: docs/understand/pools.md."""
    on_demand = 4096 + 32 * age_ms / 1000 if urgency.is_on_demand else 0
    return 1024 * urgency.priority + 16 * age_ms / 1000 + on_demand


def order(urgency: Urgency, age_ms: int) -> int:
    return urgency.order(NOW_MS - age_ms, NOW_MS)


@given(urgencies, ages, urgencies, ages)
def test_of_two_tasks_the_one_with_the_greater_score_has_the_lesser_key(
    one: Urgency, its_age_ms: int, other: Urgency, other_age_ms: int
) -> None:
    scores, keys = (
        [score(one, its_age_ms), score(other, other_age_ms)],
        [order(one, its_age_ms), order(other, other_age_ms)],
    )
    if abs(scores[0] - scores[1]) > 0.001:
        assert (scores[0] > scores[1]) == (keys[0] < keys[1])
    else:
        assert keys[0] == keys[1]


@given(urgencies, ages, st.integers(-3_000_000, 3_000_000))
def test_up_to_the_last_position_keys_are_so_great_at_most(urgency: Urgency, age_ms: int, more: int) -> None:
    key = order(urgency, age_ms) + more
    last_ms = urgency.last_ms(key, NOW_MS)
    assert urgency.order(last_ms, NOW_MS) <= key < urgency.order(last_ms + 1, NOW_MS)


@given(st.lists(st.tuples(urgencies, ages), min_size=1, max_size=8))
def test_many_have_the_keys_that_each_has(tasks: list[tuple[Urgency, int]]) -> None:
    templates = [Template("n", "q", each.priority, on_demand=each.is_on_demand) for each, _ in tasks]
    positions_ms = np.array([NOW_MS - age_ms for _, age_ms in tasks], np.int64)
    found = orders(templates, np.arange(len(tasks)), positions_ms, NOW_MS)
    assert found.tolist() == [order(*each) for each in tasks]
