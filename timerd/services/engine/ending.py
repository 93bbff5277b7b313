"""Many tasks are cancelled or purged by one call: together those that wait at home, each by itself those that were
moved, carried or have ended. These go side by side, so that they share the trips to the store."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import numpy as np

from timerd.core.protocol import Cancelled, Procedure, Request, end_many, end_task, set_for_all_tries
from timerd.model.errors import StoreUnavailable
from timerd.model.identity import TaskId
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.model.task_ids import TaskIds
from timerd.services.holding.driving import WRITES, Performs, Returned, drive, unknown_of
from timerd.services.holding.driving_many import drive_many

AT_ONCE = 256


class _Noting:
    """Notes whether anything may have been written for any of the tasks: then an error leaves the outcome unknown
    (G2)."""

    def __init__(self, runner: Performs) -> None:
        self.may_have_written = False
        self._runner = runner

    async def perform(self, request: Request) -> object:
        try:
            answer = await self._runner.perform(request)
        except StoreUnavailable:
            raise
        except Exception:
            self._note(request)
            raise
        self._note(request)
        return answer

    def _note(self, request: Request) -> None:
        self.may_have_written |= isinstance(request, WRITES)


async def end_all(
    tasks: Sequence[TaskId],
    outcome: Outcome,
    request: bytes,
    runner: Performs,
    side_by_side: int = 1,
    *,
    now_ms: int = 0,
) -> list[Cancelled]:
    """One answer a task, in order. `side_by_side`: into how many groups their homes are dealt. `now_ms`: as for
    end_task."""
    noting = _Noting(runner)
    groups = _dealt(tasks, side_by_side)
    ended = await _side_by_side([end_many(group, outcome, request, now_ms) for group in groups], noting)
    marked = frozenset[bytes]().union(*(each.marked for each in ended))
    said = [
        await _said_for_good(group, each.said, request, noting, now_ms)
        for group, each in zip(groups, ended, strict=True)
    ]
    if len(groups) == 1 and groups[0] is tasks and None not in said[0]:
        return cast(list[Cancelled], said[0])
    answers = {
        task: answer
        for group, each in zip(groups, said, strict=True)
        for task, answer in zip(group, each, strict=True)
        if answer is not None
    }
    rest = [task for task in dict.fromkeys(tasks) if task not in answers]
    for at in range(0, len(rest), AT_ONCE):
        part = rest[at : at + AT_ONCE]
        ways = [end_task(task, outcome, request, now_ms=now_ms, is_marked=task.digest in marked) for task in part]
        said_of_part = _sound(await drive_many(ways, noting), noting)
        answers.update(zip(part, said_of_part, strict=True))
    return [answers[task] for task in tasks]


async def _said_for_good(
    tasks: Sequence[TaskId], said: Sequence[Cancelled | None], request: bytes, noting: _Noting, now_ms: int
) -> Sequence[Cancelled | None]:
    """What two tries at once may say in two ways is set, unless another one has set another answer: IN_FLIGHT, and
    CANCELLED of what was due, which another try may have found with a worker."""
    ways = [n for n in _due(tasks, now_ms) if said[n] is Cancelled.CANCELLED]
    ways += [n for n, each in enumerate(said) if each is Cancelled.IN_FLIGHT] if Cancelled.IN_FLIGHT in said else []
    if not ways:
        return said
    known = list(said)
    for at in range(0, len(ways), AT_ONCE):
        part = ways[at : at + AT_ONCE]
        work = [set_for_all_tries(tasks[n], request, cast(Cancelled, said[n]), now_ms) for n in part]
        for n, each in zip(part, _sound(await drive_many(work, noting), noting), strict=True):
            known[n] = each
    return known


def _due(tasks: Sequence[TaskId], now_ms: int) -> list[int]:
    """Their places. By no clock nothing is."""
    if isinstance(tasks, TaskIds):
        places: list[int] = np.flatnonzero(tasks.positions_ms <= now_ms).tolist()
        return places
    return [n for n, task in enumerate(tasks) if task.position_ms <= now_ms]


async def _side_by_side(procedures: Sequence[Procedure[Returned]], noting: _Noting) -> list[Returned]:
    """One alone without a task of its own, whose start and end are turns of the loop."""
    if len(procedures) > 1:
        work = [drive(procedure, noting) for procedure in procedures]
        return _sound(await asyncio.gather(*work, return_exceptions=True), noting)
    try:
        return [await drive(procedure, noting) for procedure in procedures]
    except StoreUnavailable as error:
        return _sound([error], noting)


def _dealt(tasks: Sequence[TaskId], groups: int) -> list[Sequence[TaskId]]:
    """Those of one home stay together."""
    if groups == 1:
        return [tasks]
    homes: dict[Partition, list[TaskId]] = defaultdict(list)
    for task in tasks:
        homes[task.home].append(task)
    dealt = list(homes.values())
    return [[task for home in dealt[n::groups] for task in home] for n in range(min(groups, len(dealt)))]


def _sound(results: Sequence[Returned | BaseException], noting: _Noting) -> list[Returned]:
    for result in results:
        if isinstance(result, StoreUnavailable) and noting.may_have_written:
            raise unknown_of(result) from result
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
