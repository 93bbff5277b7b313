"""How long to wait before the next try: longer each time, with jitter, so that many clients do not come back as one."""

from __future__ import annotations

import random


class Backoff:
    """0.05 s at first, then `factor` times as long each time, 2 s at most."""

    def __init__(self, first_s: float = 0.05, longest_s: float = 2.0, factor: float = 2.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._factor = factor
        self._tries = 0

    def next_s(self) -> float:
        wait_s = min(self._longest_s, self._first_s * self._factor ** min(self._tries, 16))
        self._tries += 1
        return wait_s * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._tries = 0
