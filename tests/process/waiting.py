"""Waiting for facts, never for time: every wait has a bound and says what did not come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 60.0
_LOOK_S = 0.01


def until(fact: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + patience_s
    while not fact():
        assert time.monotonic() < deadline_s, f"waited {patience_s:.0f} s in vain: {what}"
        time.sleep(_LOOK_S)


async def eventually(fact: Callable[[], Awaitable[bool]], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + patience_s
    while not await fact():
        assert time.monotonic() < deadline_s, f"waited {patience_s:.0f} s in vain: {what}"
        await asyncio.sleep(5 * _LOOK_S)
