"""The line of `central` against a search of all members at each look."""

from __future__ import annotations

import numpy as np
import pytest

from timerd.rehearsal.looks import longest_ago
from timerd.simulate.line import DueLine

CYCLE_S, POLL_S, LOOKS, MEMBERS = 30.0, 7.0, 400, 60


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("batch", [1, 9, MEMBERS])
def test_it_takes_whom_a_search_would_take(seed: int, batch: int) -> None:
    """Many are equal, as all times are whole seconds; a third fail, and some end at the look itself or long after."""
    chance = np.random.default_rng(seed)
    first_s = chance.integers(0, 30, MEMBERS).astype(np.float64)
    line = DueLine(first_s, CYCLE_S, POLL_S)
    due_s, succeeded_s = first_s.copy(), first_s - CYCLE_S
    for look in range(LOOKS):
        now_s = look * POLL_S
        taken = longest_ago(np.flatnonzero(due_s <= now_s), succeeded_s, batch)
        assert line.take(look, batch).tolist() == taken.tolist()
        ended_s = now_s + chance.integers(0, 20, len(taken)).astype(np.float64)
        is_done = chance.random(len(taken)) > 1 / 3
        line.ended(look, taken, ended_s, is_done)
        succeeded_s[taken[is_done]] = ended_s[is_done]
        due_s[taken] = ended_s + np.where(is_done, CYCLE_S, 0.0)


def test_who_is_under_way_is_not_taken_again() -> None:
    line = DueLine(np.array([0.0, 1.0]), CYCLE_S, POLL_S)
    assert line.take(0, 9).tolist() == [0]
    line.ended(0, np.array([0]), np.array([20.0]), np.array([False]))
    assert [line.take(look, 9).tolist() for look in (1, 2, 3)] == [[1], [], [0]]
