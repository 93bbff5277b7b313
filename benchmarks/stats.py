"""Percentiles as they are spoken of: the smallest value that covers the share. And what a worker sums up of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

# Where a curve of lateness is told: every percent, then finer.
CURVE = (*(n / 100 for n in range(1, 100)), 0.995, 0.999, 0.9995, 0.9999, 1.0)


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def summary(late_ms: Iterable[float], numbers: Iterable[int]) -> dict[str, Any]:
    """What was received: how late each was, and which."""
    late = sorted(late_ms)
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}
    return {
        "received": len(late),
        "distinct": len(set(numbers)),
        "early": sum(one < 0 for one in late),
        "first_ms": late[0] if late else 0.0,
        **{name: percentile(late, share) if late else 0.0 for name, share in shares.items()},
        "curve": [round(percentile(late, share), 3) for share in CURVE] if late else [],
    }
