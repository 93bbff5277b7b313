"""What a namespace may schedule in a second."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """Rates of a namespace; 0: any. What they give in `burst_s` seconds may come at once."""

    calls_per_s: int = 0
    tasks_per_s: int = 0
    bytes_per_s: int = 0
    burst_s: int = 1
