"""The rate of a queue against a bucket of tokens, counted with fractions, and against every window of what was sent."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from timerd.core.regulation.rate import RateLimit
from timerd.model.regulations import QueueLimit

START_MS = 1_700_000_000_000
limits = st.builds(
    QueueLimit,
    st.just(0),
    st.integers(1, 5_000),
    st.sampled_from([1_000, 7_000, 60_000, 86_400_000]),
    st.integers(1, 300),
)
# How long nobody asks, and how many are due then.
asks = st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 400)), min_size=1, max_size=40)


class Bucket:
    """Fills at the rate, holds a burst."""

    def __init__(self, limit: QueueLimit, tokens: int) -> None:
        self._limit, self._tokens, self._at_ms = limit, Fraction(tokens), START_MS

    def free(self, now_ms: int) -> int:
        more = Fraction((now_ms - self._at_ms) * self._limit.rate, self._limit.period_ms)
        self._tokens, self._at_ms = min(Fraction(self._limit.burst), self._tokens + more), now_ms
        return int(self._tokens)

    def sent(self, tasks: int) -> None:
        self._tokens -= tasks


@given(limits, asks, st.booleans())
def test_it_allows_what_a_bucket_of_tokens_allows(limit: QueueLimit, asked: list[tuple[int, int]], full: bool) -> None:
    rate, bucket, now_ms = RateLimit(limit, START_MS, is_full=full), Bucket(limit, limit.burst if full else 0), START_MS
    for pause_ms, due in asked:
        now_ms += pause_ms
        assert rate.free(now_ms) == bucket.free(now_ms)
        tasks = min(due, rate.free(now_ms))
        rate.sent(tasks, now_ms)
        bucket.sent(tasks)
        next_ms = rate.next_ms(now_ms)
        assert rate.free(next_ms) >= 1
        assert next_ms == now_ms or not rate.free(next_ms - 1)


@given(limits, asks)
def test_no_window_has_more_than_the_rate_and_a_burst(limit: QueueLimit, asked: list[tuple[int, int]]) -> None:
    rate, now_ms = RateLimit(limit, START_MS, is_full=True), START_MS
    starts: list[tuple[int, int]] = []
    for pause_ms, due in asked:
        now_ms += pause_ms
        tasks = min(due, rate.free(now_ms))
        rate.sent(tasks, now_ms)
        starts.append((now_ms, tasks))
    for at, (first_ms, _) in enumerate(starts):
        for upto, (last_ms, _) in enumerate(starts[at:], at):
            sent = sum(tasks for _, tasks in starts[at : upto + 1])
            assert sent <= Fraction((last_ms - first_ms) * limit.rate, limit.period_ms) + limit.burst


@given(limits, limits, st.integers(0, 300), st.integers(0, 5_000))
def test_another_rate_gives_no_second_burst(old: QueueLimit, new: QueueLimit, due: int, pause_ms: int) -> None:
    rate = RateLimit(old, START_MS, is_full=True)
    sent = min(due, rate.free(START_MS))
    rate.sent(sent, START_MS)
    changed = rate.changed(new, START_MS)
    assert changed.free(START_MS) <= max(0, new.burst - sent)
    later_ms = START_MS + pause_ms
    assert changed.free(later_ms) <= new.burst


@given(limits, st.integers(1, 10_000_000))
def test_a_clock_that_was_set_back_costs_a_burst_at_most(limit: QueueLimit, back_ms: int) -> None:
    rate = RateLimit(limit, START_MS, is_full=True)
    rate.sent(rate.free(START_MS), START_MS)
    now_ms = START_MS - back_ms
    assert rate.next_ms(now_ms) <= now_ms + -(-limit.period_ms // limit.rate)
    rate.sent(1, now_ms)
    whole_ms = -(-(limit.burst + 1) * limit.period_ms // limit.rate)
    assert rate.free(now_ms + whole_ms) == limit.burst
