"""Waiting for what the logs of a run will say."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_S = 0.1


def until(fact: Callable[[], bool], what: str, patience_s: float) -> None:
    """Raises TimeoutError with `what`, as a clause behind "until"."""
    deadline_s = time.monotonic() + patience_s
    while not fact():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {patience_s:.0f} s in vain until {what}")
        time.sleep(_LOOK_S)
