"""A way to the store for procedures that run beside each other: what they ask of registers in one turn of the loop is
one trip.

For the keys of a message, of which each is a procedure of its own: a thousand trips cost more than what they fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from timerd.core.protocol import ReadRegister, ReadRegisters, Request, TryCas, TryCasMany
from timerd.services.holding.driving import Performs

Question = tuple[Any, "asyncio.Future[Any]"]


class SharedTrips:
    """Performs requests, of one call. Each procedure asks for one thing at a time, so those of a trip have no order."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._asked: list[Question] = []
        self._trips: set[asyncio.Task[None]] = set()

    async def perform(self, request: Request) -> object:
        if not isinstance(request, ReadRegister | TryCas):
            return await self._runner.perform(request)
        loop = asyncio.get_running_loop()
        if not self._asked:
            # Behind all who run in this turn.
            loop.call_soon(self._set_out)
        answered: asyncio.Future[Any] = loop.create_future()
        self._asked.append((request, answered))
        return await answered

    def _set_out(self) -> None:
        asked, self._asked = self._asked, []
        reads = [each for each in asked if isinstance(each[0], ReadRegister)]
        changes = [each for each in asked if isinstance(each[0], TryCas)]
        for trip, many in (
            (ReadRegisters([read.key for read, _ in reads]), reads),
            (TryCasMany([change.change for change, _ in changes]), changes),
        ):
            if many:
                task = asyncio.ensure_future(self._go(trip, many))
                self._trips.add(task)
                task.add_done_callback(self._trips.discard)

    async def _go(self, trip: Request, asked: Sequence[Question]) -> None:
        """What fails, fails for all of them."""
        try:
            answers: Any = await self._runner.perform(trip)
        except Exception as error:  # noqa: BLE001 - told to those who asked
            for _, answered in asked:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(asked, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)
