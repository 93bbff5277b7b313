"""Rates that are taken in lumps: nothing above them in the long run, nothing that waits for ever."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from timerd.core.regulation import Excess, QuotaMeter, Use
from timerd.model.quotas import Quota

NOW_MS = 1_800_000_000_000


def tasks(number: int) -> Use:
    return Use(1, number, 0)


def test_the_burst_may_come_at_once_and_then_the_rate_holds() -> None:
    meter = QuotaMeter(Quota(tasks_per_s=10, burst_s=3))
    assert meter.take(tasks(20), NOW_MS) is None
    assert meter.take(tasks(11), NOW_MS) == Excess("tasks", 10, 100)
    assert meter.take(tasks(10), NOW_MS) is None
    assert meter.take(tasks(1), NOW_MS + 99) == Excess("tasks", 10, 1)
    assert meter.take(tasks(1), NOW_MS + 100) is None


def test_what_is_larger_than_the_burst_goes_when_nothing_is_owed_and_is_owed_then() -> None:
    meter = QuotaMeter(Quota(tasks_per_s=10, burst_s=2))
    assert meter.take(tasks(1), NOW_MS) is None
    assert meter.take(tasks(100), NOW_MS) == Excess("tasks", 10, 100)
    assert meter.take(tasks(100), NOW_MS + 100) is None
    assert meter.take(tasks(1), NOW_MS + 100) == Excess("tasks", 10, 8_100)
    assert not meter.is_rested(NOW_MS + 10_099)
    assert meter.is_rested(NOW_MS + 10_100)


def test_a_message_that_is_over_one_of_its_rates_takes_nothing_of_the_others() -> None:
    meter = QuotaMeter(Quota(calls_per_s=1, tasks_per_s=100, bytes_per_s=1_000))
    assert meter.take(Use(1, 50, 500), NOW_MS) is None
    assert meter.take(Use(1, 50, 600), NOW_MS) == Excess("calls", 1, 1_000)
    assert meter.take(Use(1, 100, 1_000), NOW_MS + 1_000) is None


@given(
    st.integers(1, 50),
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_no_span_has_more_than_its_rate_and_one_lump(per_s: int, burst_s: int, asked: list[tuple[int, int]]) -> None:
    """Of each span: the burst, the rate times its length, and what the largest message was over the burst. And what is
    told to wait goes then."""
    meter, now_ms = QuotaMeter(Quota(tasks_per_s=per_s, burst_s=burst_s)), NOW_MS
    went: list[tuple[int, int]] = []
    for pause_ms, number in asked:
        now_ms += pause_ms
        excess = meter.take(tasks(number), now_ms)
        if excess is not None:
            now_ms += excess.wait_ms
            assert meter.take(tasks(number), now_ms) is None
        went.append((now_ms, number))
    burst, largest = per_s * burst_s, max(number for _, number in went)
    for first, (begin_ms, _) in enumerate(went):
        total = 0
        for at_ms, number in went[first:]:
            total += number
            assert total <= burst + per_s * (at_ms - begin_ms) / 1_000 + max(0, largest - burst)
