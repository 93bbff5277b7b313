"""A way to the store for procedures that run beside each other: what they ask of it in one turn of the loop is one
trip.

For the keys of a message, and for its moves, of which each is a procedure of its own: a thousand trips cost more than
what they fetch. And for the single calls that came in one turn: those that take the same steps take them together, and
each hears what it would hear alone.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from timerd.core.protocol import (
    AppendRows,
    Find,
    FindSettled,
    LookAt,
    MarkAndLook,
    ReadRegister,
    Request,
    SetMarks,
    Together,
    TryCas,
    joined,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.services.holding.driving import Performs

Question = tuple[Any, "asyncio.Future[Any]"]


# What shares a trip; all else goes by itself.
SHARED = frozenset({AppendRows, Find, FindSettled, LookAt, MarkAndLook, ReadRegister, SetMarks, TryCas})
# Of a request of several parts so many at most: more are a call of many tasks, which gains nothing.
FEW = 4


class SharedTrips:
    """Performs requests. Each procedure asks for one thing at a time, so those of a trip have no order."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._asked: list[Question] = []
        self._trips: set[asyncio.Task[None]] = set()

    async def perform(self, request: Request) -> object:
        if isinstance(request, Together) and 0 < len(request.requests) <= FEW:
            return list(await asyncio.gather(*map(self.perform, request.requests)))
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
        """Where the store is away, it is for all of them."""
        request, answers_of = joined([each for each, _ in asked])
        try:
            answers = answers_of(await self._runner.perform(request))
        except Exception as error:  # noqa: BLE001 - told to those who asked
            if len(asked) > 1 and not isinstance(error, StoreUnavailable | StoreUnknown):
                # One of them is at fault, and the others need not suffer for it.
                for each in asked:
                    await self._go([each])
                return
            for _, answered in asked:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(asked, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)


def _together(asked: Sequence[Question]) -> Iterator[Sequence[Question]]:
    """Of each kind; rows are looked for by partition."""
    trips: defaultdict[tuple[type[Request], Partition | bool | None], list[Question]] = defaultdict(list)
    for each in asked:
        trips[type(each[0]), apart(each[0])].append(each)
    yield from trips.values()


def apart(request: Request) -> Partition | bool | None:
    """What those of one kind must have in common that share a trip."""
    match request:
        case Find(partition):
            return partition
        case FindSettled(durable=durable):
            return durable
        case _:
            return None


def of_all_calls(runner: Performs, *, shares_commits: bool) -> Performs:
    """A way for the single calls of an instance. Where the store writes what comes together in one commit, they share
    its fate in any case; elsewhere a row that cannot be written is no reason to fail another one."""
    return SharedTrips(runner) if shares_commits else runner
