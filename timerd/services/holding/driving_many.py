"""Runs many of the core's procedures side by side: what several of them ask at one time goes as one request.

For the keys of a message, its moves and the tasks of a cancel, of which each is a procedure of its own. A task of the
loop and a future for each of a thousand cost more than their steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any, Generic, cast

from timerd.core.protocol import AskToMove, FindVacant, HintRows, Procedure, Recheck, RunningProcedure, joined
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.services.holding.driving import WRITES, Performs, Returned, drive, unknown_of
from timerd.services.holding.shared_trips import SHARED, SharedTrips, apart

# So many hear their answers before others have their turn at the loop.
AT_ONCE = 64


class _DrivenProcedure(RunningProcedure[Returned], Generic[Returned]):
    """One of the procedures. As for `drive`, what fails after something was written has an unknown outcome."""

    has_written = False

    def told(self, answer: object) -> None:
        self.has_written |= isinstance(self.request, WRITES)
        self.hear(answer)

    def failed(self, error: Exception) -> None:
        if isinstance(error, StoreUnavailable):
            self.fail(unknown_of(error) if self.has_written else error)
            return
        self.has_written |= isinstance(self.request, WRITES)
        self.fail(error)


Lanes = Sequence[_DrivenProcedure[Any]]


async def drive_many(procedures: Sequence[Procedure[Returned]], runner: Performs) -> list[Returned | Exception]:
    """What each returned or raised, in their order, when all have come to their ends."""
    if len(procedures) == 1:
        return [await _ended(procedures[0], runner)]
    lanes = [_DrivenProcedure(each) for each in procedures]
    await _go_on(lanes, SharedTrips(runner))
    # They have ended: what a procedure that returns nothing has come to is None as well.
    return cast("list[Returned | Exception]", [lane.ended for lane in lanes])


async def _ended(procedure: Procedure[Returned], runner: Performs) -> Returned | Exception:
    """It has nobody to wait for."""
    try:
        return await drive(procedure, runner)
    except Exception as error:  # noqa: BLE001 - it is for the caller to judge
        return error


async def drive_all(procedures: Sequence[Procedure[Returned]], runner: Performs) -> list[Returned]:
    """As `drive_many`. Raises the first error."""
    ended = await drive_many(procedures, runner)
    for each in ended:
        if isinstance(each, Exception):
            raise each
    return [each for each in ended if not isinstance(each, Exception)]


async def _go_on(lanes: Lanes, runner: Performs) -> None:
    """Those that ask for the same kind of thing stay together as long as they do."""
    while groups := _groups([lane for lane in lanes if lane.request is not None]):
        if len(groups) > 1:
            await asyncio.gather(*(_go_on(group, runner) for group in groups))
            return
        lanes = groups[0]
        await _ask(lanes, runner)


def _groups(lanes: Lanes) -> list[Lanes]:
    groups: dict[Hashable, list[_DrivenProcedure[Any]]] = {}
    for lane in lanes:
        groups.setdefault(_kind(lane), []).append(lane)
    return [*groups.values()]


def _kind(lane: _DrivenProcedure[Any]) -> Hashable:
    """Of what it asks: equal where it goes together. Nobody waits for the holder of another partition."""
    match lane.request:
        case AskToMove(partition) | Recheck(partition):
            return type(lane.request), partition
        case HintRows(may_repeat=may_repeat):
            return HintRows, may_repeat
        case FindVacant():
            return FindVacant
        case request if request is not None and type(request) in SHARED:
            return type(request), apart(request)
        case _:
            return id(lane)


async def _ask(lanes: Lanes, runner: Performs) -> None:
    """Where the store is away, it is for all of them."""
    try:
        request, answers_of = joined([lane.request for lane in lanes])
        answers = answers_of(await runner.perform(request))
    except Exception as error:  # noqa: BLE001 - told to those who asked
        if len(lanes) > 1 and not isinstance(error, StoreUnavailable | StoreUnknown):
            # One of them is at fault, and the others need not suffer for it.
            for lane in lanes:
                await _ask([lane], runner)
            return
        for lane in lanes:
            lane.failed(error)
        return
    for n, (lane, answer) in enumerate(zip(lanes, answers, strict=True)):
        if n and n % AT_ONCE == 0:
            await asyncio.sleep(0)
        lane.told(answer)
