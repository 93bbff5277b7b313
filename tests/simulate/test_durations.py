"""Durations have the mean and the p90 that are asked for, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.model.errors import Invalid
from timerd.simulate import durations

DRAWS = 1_000_000


@pytest.mark.parametrize("ratio", [1, 1.05, 1.5, 2.03, 2.2, 2.27, 2.28, 2.31, 3, 5, 7, 9, 9.5])
def test_a_million_draws_have_the_mean_and_the_p90(ratio: float) -> None:
    drawn = durations(5.0, 5.0 * ratio).draw(np.random.default_rng(1), DRAWS)
    assert drawn.min() > 0
    assert drawn.mean() == pytest.approx(5.0, rel=0.01)
    assert np.quantile(drawn, 0.9) == pytest.approx(5.0 * ratio, rel=0.01)


def test_what_the_formula_of_the_talk_gives_can_be_had() -> None:
    drawn = durations(74.3, 151.0).draw(np.random.default_rng(2), DRAWS)
    assert (drawn.mean(), np.quantile(drawn, 0.9)) == pytest.approx((74.3, 151.0), rel=0.01)


@given(st.floats(1.001, 9.99), st.floats(0.01, 10_000))
def test_a_tenth_is_beyond_the_p90_and_the_mean_is_exact_by_arithmetic(ratio: float, mean_s: float) -> None:
    made = durations(mean_s, ratio * mean_s)
    share = made.long_share
    beyond = share * made.long.share_above(ratio * mean_s) + (1 - share) * made.short.share_above(ratio * mean_s)
    assert beyond == pytest.approx(0.1, rel=1e-3)
    assert made.mean_s == pytest.approx(mean_s, rel=1e-9)
    assert min(made.short.mean_s, made.long.mean_s) > 0


def test_the_pair_of_the_talk_is_impossible() -> None:
    with pytest.raises(
        Invalid, match=r"impossible: a tenth of the jobs takes 120 s or more, so the mean is 12 s at least"
    ):
        durations(4.0, 120.0)
    with pytest.raises(Invalid, match="impossible"):
        durations(4.0, 40.0)


@pytest.mark.parametrize(
    ("mean_s", "p90_s", "sentence"),
    [
        (5.0, 4.9, "below the mean"),
        (0.0, 1.0, "above 0 s"),
        (1.0, -1.0, "above 0 s"),
        (float("nan"), 1.0, "above 0 s"),
        (1.0, float("inf"), "at most a year"),
    ],
)
def test_what_is_no_duration_is_refused(mean_s: float, p90_s: float, sentence: str) -> None:
    with pytest.raises(Invalid, match=sentence):
        durations(mean_s, p90_s)
