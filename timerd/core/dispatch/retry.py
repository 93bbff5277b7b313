"""When a failed attempt goes on. The jitter comes from the task, so that every instance computes the same instant."""

from __future__ import annotations

from hashlib import blake2b

from timerd.model.identity import attempt_of
from timerd.model.task import RetryPolicy

_SPAN = 1 << 32


def backoff_ms(policy: RetryPolicy, attempt: int, digest: bytes) -> int:
    """How long to wait after attempt `attempt` (1 = the first) has failed."""
    try:
        wanted_ms = policy.initial_backoff_ms * policy.multiplier ** (attempt - 1)
    except OverflowError:
        wanted_ms = float(policy.max_backoff_ms)
    wait_ms = min(wanted_ms, policy.max_backoff_ms)
    return max(0, round(wait_ms * (1.0 - max(0.0, policy.jitter) * _chance(digest, attempt))))


def next_position_ms(position_ms: int, failed_at_ms: int, wait_ms: int) -> int:
    """Where the next attempt lives: never before the previous one, whatever the clocks say."""
    return max(position_ms, failed_at_ms) + wait_ms


def is_exhausted(policy: RetryPolicy, version: int) -> bool:
    """Whether the attempt that a row of this version leads to was the last."""
    return attempt_of(version) >= policy.max_attempts


def _chance(digest: bytes, attempt: int) -> float:
    """0 <= x < 1, spread evenly over tasks and attempts."""
    seed = blake2b(digest + attempt.to_bytes(4, "big"), digest_size=4, person=b"timerd.jitter").digest()
    return int.from_bytes(seed, "big") / _SPAN
