"""How busy the event loop is, as autoscaling sees it."""

from __future__ import annotations

import pytest

from timerd.observability.loop_lag import SMOOTHED_S, LoopLag


def after(*looks: tuple[float, float]) -> float:
    """`looks`: (now, processor time of the loop's thread by then), both from 0."""
    lag = LoopLag()
    for now_s, worked_s in looks:
        lag.weigh(now_s, worked_s)
    return lag.busy


def test_it_comes_near_to_the_share_that_lasts() -> None:
    steady = [(n / 4, 0.6 * n / 4) for n in range(1, 1_000)]
    assert after(*steady) == pytest.approx(0.6, abs=0.01)


def test_a_burst_of_a_second_is_hardly_seen() -> None:
    assert after((1, 1.0)) == pytest.approx(1 / SMOOTHED_S)


def test_a_look_that_comes_late_counts_for_all_the_time_since() -> None:
    assert after((2 * SMOOTHED_S, SMOOTHED_S)) == pytest.approx(0.5)


def test_it_is_never_more_than_all() -> None:
    assert after((SMOOTHED_S, 2 * SMOOTHED_S)) == 1.0
