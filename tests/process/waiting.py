"""Waiting for facts, never for time: every wait has a bound and says what did not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 60.0
_LOOK_S = 0.01


def until(fact: Callable[[], bool], what: str, patience_s: float = PATIENCE_S, *, look_s: float = _LOOK_S) -> None:
    assert came(fact, patience_s, look_s=look_s), f"waited {patience_s:.0f} s in vain: {what}"


def came(fact: Callable[[], bool], patience_s: float = PATIENCE_S, *, look_s: float = _LOOK_S) -> bool:
    """For those who go on without it, and say so."""
    deadline_s = time.monotonic() + patience_s
    while not fact():
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(look_s)
    return True


async def eventually(fact: Callable[[], Awaitable[bool]], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + patience_s
    while not await fact():
        assert time.monotonic() < deadline_s, f"waited {patience_s:.0f} s in vain: {what}"
        await asyncio.sleep(5 * _LOOK_S)
