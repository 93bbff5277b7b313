"""The demand that is foreseen, and how many replicas it asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.core.cluster.forecast import MINUTE_MS, Outlook, demand_per_s, replicas_for

OUTLOOK = Outlook(lead_ms=3 * MINUTE_MS, hold_ms=5 * MINUTE_MS)
# A hot minute: 6,000 tasks, 100 a second.
HOT = 100 * MINUTE_MS
DUE = {HOT: 6_000}


def demand(now_ms: int) -> float:
    return demand_per_s(DUE, now_ms, OUTLOOK)


def test_a_hot_minute_is_seen_when_its_start_is_as_near_as_the_lead() -> None:
    assert demand(HOT - 3 * MINUTE_MS - 1) == 0
    assert demand(HOT - 3 * MINUTE_MS) == 100


def test_nobody_goes_until_the_wave_has_been_over_for_the_hold() -> None:
    assert demand(HOT + 6 * MINUTE_MS - 1) == 100
    assert demand(HOT + 6 * MINUTE_MS) == 0


def test_the_busiest_minute_counts_and_not_the_sum() -> None:
    due = {HOT: 600, HOT + MINUTE_MS: 1_200, HOT + 2 * MINUTE_MS: 60}
    assert demand_per_s(due, HOT, OUTLOOK) == 20


def test_more_taken_off_than_was_counted_is_no_demand() -> None:
    assert demand_per_s({HOT: -3}, HOT, OUTLOOK) == 0


@pytest.mark.parametrize(("rate", "replicas"), [(0, 1), (50, 1), (50.1, 2), (125, 3), (10_000, 6)])
def test_replicas_are_rounded_up_and_kept_within_their_limits(rate: float, replicas: int) -> None:
    assert replicas_for(rate, per_replica=50, least=1, most=6) == replicas


@given(
    due=st.dictionaries(st.integers(0, 60).map(lambda n: n * MINUTE_MS), st.integers(0, 100_000)),
    now_ms=st.integers(0, 60 * MINUTE_MS),
    lead_ms=st.integers(0, 10 * MINUTE_MS),
)
def test_looking_further_never_asks_for_less_and_what_is_due_now_is_always_seen(
    due: dict[int, int], now_ms: int, lead_ms: int
) -> None:
    near, far = Outlook(lead_ms, 0), Outlook(lead_ms + MINUTE_MS, 0)
    assert demand_per_s(due, now_ms, far) >= demand_per_s(due, now_ms, near)
    assert demand_per_s(due, now_ms, near) >= due.get(now_ms // MINUTE_MS * MINUTE_MS, 0) / 60
