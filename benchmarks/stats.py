"""Percentiles as they are spoken of: the smallest value that covers the share."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
