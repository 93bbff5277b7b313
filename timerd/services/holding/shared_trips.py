"""A way to the store for procedures that run beside each other: what they ask of it in one turn of the loop is one
trip.

For the keys of a message, and for its moves, of which each is a procedure of its own: a thousand trips cost more than
what they fetch.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from timerd.core.protocol import (
    AppendRows,
    Find,
    ReadRegister,
    ReadRegisters,
    Request,
    SetMarks,
    TryCas,
    TryCasMany,
)
from timerd.services.holding.driving import Performs

Question = tuple[Any, "asyncio.Future[Any]"]


class Joining(NamedTuple):
    """How requests of one kind become one. `shared`: requests go together where it is the same of them. `answers`: what
    each of them is told of the answer to `joined`."""

    shared: Callable[[Any], object]
    joined: Callable[[Sequence[Any]], Request]
    answers: Callable[[Sequence[Any], Any], Sequence[object]]


def _nothing(_: object) -> None:
    return None


def _one_each(_: Sequence[Any], said: Sequence[object]) -> Sequence[object]:
    return said


def _parts(sizes: Sequence[int], said: Sequence[object]) -> list[object]:
    at = iter(said)
    return [[next(at) for _ in range(size)] for size in sizes]


def _found(asked: Sequence[Find], said: Sequence[object]) -> list[object]:
    return _parts([len(each.keys) for each in asked], said)


def _appended(asked: Sequence[AppendRows], said: Sequence[object]) -> list[object]:
    return _parts([len(each.messages) for each in asked], said)


def _marked(asked: Sequence[SetMarks], fresh: int) -> list[int]:
    """Of some of them it is not known whose marks are the first."""
    are_all = fresh == sum(len(each.marks) for each in asked)
    return [len(each.marks) if are_all else 0 for each in asked]


_JOINING: Mapping[type[Request], Joining] = {
    ReadRegister: Joining(_nothing, lambda asked: ReadRegisters([each.key for each in asked]), _one_each),
    TryCas: Joining(_nothing, lambda asked: TryCasMany([each.change for each in asked]), _one_each),
    Find: Joining(
        lambda each: each.partition,
        lambda asked: Find(asked[0].partition, [key for each in asked for key in each.keys]),
        _found,
    ),
    SetMarks: Joining(_nothing, lambda asked: SetMarks([mark for each in asked for mark in each.marks]), _marked),
    AppendRows: Joining(
        _nothing, lambda asked: AppendRows([message for each in asked for message in each.messages]), _appended
    ),
}


class SharedTrips:
    """Performs requests, of one call. Each procedure asks for one thing at a time, so those of a trip have no order."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._asked: list[Question] = []
        self._trips: set[asyncio.Task[None]] = set()

    async def perform(self, request: Request) -> object:
        if type(request) not in _JOINING:
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
        requests = [request for request, _ in asked]
        joining = _JOINING[type(requests[0])]
        try:
            answers = joining.answers(requests, await self._runner.perform(joining.joined(requests)))
        except Exception as error:  # noqa: BLE001 - told to those who asked
            for _, answered in asked:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(asked, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)


def _together(asked: Sequence[Question]) -> Iterator[Sequence[Question]]:
    trips: defaultdict[tuple[type[Request], object], list[Question]] = defaultdict(list)
    for each in asked:
        kind = type(each[0])
        trips[kind, _JOINING[kind].shared(each[0])].append(each)
    yield from trips.values()
