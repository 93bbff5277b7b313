"""Compares this instance's clock with those of the others, and keeps it from holding anything while it is wrong.

At the start, before anything is held; whenever others come or go, or the clock was set anew; and every ten seconds.
A clock that jumps is noticed by the engine clock itself: this is for one that is wrong and steady.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from timerd.core.cluster import Comparison, Reading, Standing, compare
from timerd.ports import Clock
from timerd.services.health.health_board import SCHEDULER, HealthBoard
from timerd.services.holding.engine_time import EngineTime

log = logging.getLogger(__name__)
COMPARE_EVERY_MS = 10_000
LOOK_S = 0.25
REASON = "clock"


class Company(Protocol):
    """What is needed of membership."""

    def present(self) -> tuple[str, ...]: ...

    def address_of(self, name: str) -> str: ...

    async def refresh(self) -> None: ...

    async def cordon(self, *, cordoned: bool) -> None: ...


class ClockWatch:
    """`ask`: the engine time of the instance at an address; None where it does not answer."""

    def __init__(
        self,
        time: EngineTime,
        clock: Clock,
        company: Company,
        ask: Callable[[str], Awaitable[float | None]],
        board: HealthBoard,
    ) -> None:
        self._time = time
        self._clock = clock
        self._company = company
        self._ask = ask
        self._board = board
        self._due_ms = 0.0
        self._compared_with: tuple[str, ...] = ()

    async def before_joining(self) -> None:
        """Who starts with a wrong clock is not to get anything at all."""
        await self._company.refresh()
        await self._compare()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(LOOK_S)

    async def step(self) -> None:
        """What is due now."""
        is_new = self._company.present() != self._compared_with or self._time.is_set_anew
        if is_new or self._clock.boot_ms() >= self._due_ms:
            await self._compare()

    async def _compare(self) -> None:
        self._due_ms = self._clock.boot_ms() + COMPARE_EVERY_MS
        names, origin = self._company.present(), self._time.origin
        readings = await asyncio.gather(*(self._reading(self._company.address_of(name)) for name in names))
        found = compare([each for each in readings if each is not None], len(names) + 1)
        self._compared_with = names
        was_wrong = bool(self._time.ahead_ms)
        self._time.compared(found, origin)
        self._board.put(SCHEDULER, REASON, self._time.doubt if self._time.ahead_ms else "")
        if was_wrong != bool(self._time.ahead_ms):
            await self._change(found)

    async def _reading(self, address: str) -> Reading | None:
        asked_ms = self._time.exact_ms()
        told_ms = await self._ask(address)
        return Reading.between(asked_ms, told_ms, self._time.exact_ms()) if told_ms is not None else None

    async def _change(self, found: Comparison) -> None:
        is_wrong = found.standing is Standing.WRONG
        if is_wrong:
            log.error("%s", self._time.doubt)
        else:
            log.info("the clock of this instance agrees with the others again: it takes its share")
        await self._company.cordon(cordoned=is_wrong)
