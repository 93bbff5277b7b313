"""Many schedules in one call, an outcome for each: what is wrong with one of them keeps no other from being created."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.creating_many import WantedSchedule
from timerd.core.schedules.zones import ZonesDiffer
from timerd.model.errors import Aborted, AlreadyExists, Invalid, NotFound, NotStored, Precondition
from timerd.services.calls.fields import limit_count, namespace_of, request_id_of
from timerd.services.engine.verbs import Verbs
from timerd.services.holding.driving import after_a_write
from timerd.services.schedules.schedule_calls import as_asked, once, wanted_of
from timerd.services.schedules.schedules import Schedules, request_hash
from timerd.services.transport.slices import in_slices
from timerd.services.transport.status import problem_of
from timerd.v1 import schedule_service_pb2 as wire

MAX_SCHEDULES = 1_000
# Their part of the work that is ours takes some milliseconds, in which nothing fires.
AT_ONCE = 50
# So many of these parts are under way: while one waits for the disk another is computed, and those that wait share a
# commit.
SIDE_BY_SIDE = 4
# What an item is refused for; anything else ends the call, which may be repeated.
REFUSALS = (Invalid, AlreadyExists, Aborted, Precondition, NotFound, ZonesDiffer)
# By its place in the request.
Results = dict[int, wire.CreateScheduleResult]


class BatchCalls:
    """One method a call: request -> reply, or one of model.errors."""

    def __init__(self, schedules: Schedules, verbs: Verbs) -> None:
        self._schedules = schedules
        self._verbs = verbs

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        kind = wire.CreateScheduleBatchResponse
        return {"CreateScheduleBatch": once(self._verbs, self.create, kind)}

    async def create(self, request: wire.CreateScheduleBatchRequest) -> wire.CreateScheduleBatchResponse:
        limit_count(len(request.schedules), MAX_SCHEDULES, "schedules", "schedules")
        results: Results = {}
        wanted = await self._wanted(request, results)
        with after_a_write():
            left = await self._created_together(wanted, results)
            await self._created_one_by_one(left, request, results)
        return wire.CreateScheduleBatchResponse(results=[results[n] for n in range(len(request.schedules))])

    async def _wanted(self, request: wire.CreateScheduleBatchRequest, results: Results) -> dict[int, WantedSchedule]:
        """Those that are in order; of the others the results say what is wrong."""
        namespace, request_id = namespace_of(request.namespace), request_id_of(request.request_id)
        wanted: dict[int, WantedSchedule] = {}
        async for number, item in in_slices(request.schedules):
            content = f"{number}\0".encode() + item.SerializeToString(deterministic=True)
            try:
                _check_is_item(item)
                each = wanted_of(namespace, item, request_hash("CreateScheduleBatch", namespace, request_id, content))
                self._schedules.check(each.name.schedule_id, each.definition.spec)
            except Invalid as error:
                results[number] = _refused(item, error)
            else:
                wanted[number] = each
        return wanted

    async def _created_together(
        self, wanted: Mapping[int, WantedSchedule], results: Results
    ) -> list[tuple[int, WantedSchedule]]:
        """The first of each id; returns those that are to be created by themselves."""
        first: dict[str, int] = {}
        for number, each in wanted.items():
            first.setdefault(each.name.schedule_id, number)
        numbers = list(first.values())
        parts = [numbers[at : at + AT_ONCE] for at in range(0, len(numbers), AT_ONCE)]

        async def work(part: Sequence[int]) -> None:
            made = await self._schedules.create_many([wanted[number] for number in part])
            for number, entry in zip(part, made, strict=True):
                if entry is not None:
                    results[number] = _created(wanted[number].name.schedule_id, entry.revision)

        for at in range(0, len(parts), SIDE_BY_SIDE):
            await asyncio.gather(*map(work, parts[at : at + SIDE_BY_SIDE]))
        return [(number, each) for number, each in wanted.items() if number not in results]

    async def _created_one_by_one(
        self, left: Sequence[tuple[int, WantedSchedule]], request: wire.CreateScheduleBatchRequest, results: Results
    ) -> None:
        """Some ids at a time; those of one id in their order."""
        by_id: dict[str, list[tuple[int, WantedSchedule]]] = {}
        for number, each in left:
            by_id.setdefault(each.name.schedule_id, []).append((number, each))
        queues = list(by_id.values())

        async def work(queue: Sequence[tuple[int, WantedSchedule]]) -> None:
            for number, each in queue:
                results[number] = await self._result(each, request.schedules[number])

        for at in range(0, len(queues), AT_ONCE):
            await asyncio.gather(*map(work, queues[at : at + AT_ONCE]))

    async def _result(self, each: WantedSchedule, item: wire.CreateScheduleRequest) -> wire.CreateScheduleResult:
        try:
            shown = await self._create(each, is_update=item.on_conflict == wire.SCHEDULE_CONFLICT_UPDATE)
        except REFUSALS as error:
            return _refused(item, error)
        return _created(item.schedule_id, shown)

    async def _create(self, each: WantedSchedule, *, is_update: bool) -> int:
        """Its revision."""
        try:
            shown = await self._schedules.create(each.name, each.request, each.definition)
        except AlreadyExists:
            if not is_update:
                raise
            shown = await self._schedules.change(each.name, each.request, 0, as_asked(each.definition))
        return shown.entry.revision


def _check_is_item(item: wire.CreateScheduleRequest) -> None:
    """Raises Invalid."""
    for field in ("namespace", "request_id"):
        if getattr(item, field):
            raise Invalid(f"The schedule of a batch has a {field}: give it with the batch, for all of them.", field)


def _created(schedule_id: str, revision: int) -> wire.CreateScheduleResult:
    return wire.CreateScheduleResult(schedule_id=schedule_id, revision=revision)


def _refused(item: wire.CreateScheduleRequest, error: NotStored) -> wire.CreateScheduleResult:
    return wire.CreateScheduleResult(schedule_id=item.schedule_id, problem=problem_of(error))
