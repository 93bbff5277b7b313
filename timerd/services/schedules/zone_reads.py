"""The register of time zones, read once for all who ask at one time.

Each creation of a schedule with a zone reads it, and on a store with nodes a register that is read by many at once is
slow for all of them.
"""

from __future__ import annotations

import asyncio

from timerd.core.protocol import ReadRegister, Request
from timerd.model.zones import ZONES
from timerd.services.holding.driving import Performs


class ZoneReads:
    """Implements Performs. A read that is shared has begun after each of those who share it has asked."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._next: asyncio.Task[object] | None = None
        self._under_way: asyncio.Task[object] | None = None

    async def perform(self, request: Request) -> object:
        if not isinstance(request, ReadRegister) or request.key != ZONES:
            return await self._runner.perform(request)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._read_behind(self._under_way))
        return await asyncio.shield(self._next)

    async def _read_behind(self, before: asyncio.Task[object] | None) -> object:
        if before is not None:
            await asyncio.wait({before})
        self._under_way, self._next = self._next, None
        return await self._runner.perform(ReadRegister(ZONES))
