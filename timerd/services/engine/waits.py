"""Many things that are waited for as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

# So many at a time are waited for: those whose rows are elsewhere read the store.
WAITS_AT_ONCE = 256


def wait_for_all(waits: Sequence[Awaitable[None]]) -> Awaitable[None]:
    """They begin whether or not anybody waits."""
    return asyncio.ensure_future(waits[0] if len(waits) == 1 else _each(waits))


async def _each(waits: Sequence[Awaitable[None]]) -> None:
    for at in range(0, len(waits), WAITS_AT_ONCE):
        await asyncio.gather(*waits[at : at + WAITS_AT_ONCE])
