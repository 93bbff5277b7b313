from __future__ import annotations

import statistics

from timerd.core.dispatch.retry import backoff_ms, is_exhausted, next_position_ms
from timerd.model.task import RetryPolicy

PLAIN = RetryPolicy(jitter=0.0)


def test_backoff_grows_to_its_cap() -> None:
    assert [backoff_ms(PLAIN, n, b"x") for n in (1, 2, 3, 12, 13, 60_000)] == [
        1_000,
        2_000,
        4_000,
        2_048_000,
        3_600_000,
        3_600_000,
    ]


def test_jitter_is_deterministic_and_spreads_below_the_backoff() -> None:
    policy = RetryPolicy(jitter=0.5)
    digests = [n.to_bytes(16, "big") for n in range(2_000)]
    waits = [backoff_ms(policy, 1, d) for d in digests]
    assert waits == [backoff_ms(policy, 1, d) for d in digests]
    assert 500 <= min(waits) < 520
    assert 980 < max(waits) <= 1_000
    assert 740 < statistics.mean(waits) < 760


def test_attempts_of_one_task_have_different_jitter() -> None:
    policy = RetryPolicy(jitter=1.0, multiplier=1.0)
    assert len({backoff_ms(policy, n, b"x" * 16) for n in range(1, 11)}) > 5


def test_the_next_position_is_never_before_the_previous() -> None:
    assert next_position_ms(1_000, 5_000, 10) == 5_010
    assert next_position_ms(9_000, 5_000, 10) == 9_010


def test_the_last_attempt() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert [is_exhausted(policy, version) for version in (0, 1, 2, 3, 1 << 16)] == [False, False, True, True, False]
