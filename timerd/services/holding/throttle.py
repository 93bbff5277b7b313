"""A bounded rate: missed buckets load no faster than this, so that on-time work keeps its share (G14)."""

from __future__ import annotations

import asyncio


class Throttle:
    """`rows_per_s` on average; who comes later waits for those before."""

    def __init__(self, rows_per_s: int) -> None:
        self._rows_per_s = rows_per_s
        self._free_at_s = 0.0

    async def wait(self, rows: int) -> None:
        now_s = asyncio.get_running_loop().time()
        self._free_at_s = max(now_s, self._free_at_s) + rows / self._rows_per_s
        await asyncio.sleep(self._free_at_s - now_s)
