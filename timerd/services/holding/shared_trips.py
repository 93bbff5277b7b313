"""A way to the store for procedures that run beside each other: what they ask of it in one turn of the loop is one
trip.

For the keys of a message, and for its moves, of which each is a procedure of its own: a thousand trips cost more than
what they fetch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from timerd.core.protocol import AppendRows, Find, ReadRegister, Request, SetMarks, TryCas, joined
from timerd.model.partition import Partition
from timerd.services.holding.driving import Performs

Question = tuple[Any, "asyncio.Future[Any]"]


# What shares a trip; all else goes by itself.
SHARED = frozenset({AppendRows, Find, ReadRegister, SetMarks, TryCas})


class SharedTrips:
    """Performs requests, of one call. Each procedure asks for one thing at a time, so those of a trip have no order."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._asked: list[Question] = []
        self._trips: set[asyncio.Task[None]] = set()

    async def perform(self, request: Request) -> object:
        if type(request) not in SHARED:
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
        for many in _together(asked):
            task = asyncio.ensure_future(self._go(many))
            self._trips.add(task)
            task.add_done_callback(self._trips.discard)

    async def _go(self, asked: Sequence[Question]) -> None:
        """What fails, fails for all of them."""
        request, answers_of = joined([each for each, _ in asked])
        try:
            answers = answers_of(await self._runner.perform(request))
        except Exception as error:  # noqa: BLE001 - told to those who asked
            for _, answered in asked:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(asked, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)


def _together(asked: Sequence[Question]) -> Iterator[Sequence[Question]]:
    """Of each kind; rows are looked for by partition."""
    trips: defaultdict[tuple[type[Request], Partition | None], list[Question]] = defaultdict(list)
    for each in asked:
        request = each[0]
        trips[type(request), request.partition if isinstance(request, Find) else None].append(each)
    yield from trips.values()
