"""Calls of backfills: checked in full before anything is written, answered as messages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.backfill import PastSpan
from timerd.model.backfills import BackfillName, BackfillState
from timerd.model.errors import Invalid
from timerd.model.overlap import Overlap
from timerd.services.calls.due_times import ms_from
from timerd.services.calls.fields import at_most, quoted
from timerd.services.calls.replies import timestamp
from timerd.services.engine.verbs import Verbs
from timerd.services.schedules.backfills import Backfilled, Backfills
from timerd.services.schedules.schedule_calls import hash_of, name_of, once, place_of, token_of
from timerd.services.schedules.schedules import ListPlace
from timerd.services.schedules.spec_wire import OVERLAP_BACK, OVERLAPS
from timerd.v1 import schedule_service_pb2 as wire

DEFAULT_RATE, MAX_RATE = 100, 10_000
DEFAULT_PAGE, MAX_PAGE = 100, 1_000
MAX_ID_CHARS = 64
_ID = re.compile(r"[A-Za-z0-9._\-/:]{1,64}")
_STATES = {
    BackfillState.RUNNING: wire.BACKFILL_STATE_RUNNING,
    BackfillState.DONE: wire.BACKFILL_STATE_DONE,
    BackfillState.CANCELLED: wire.BACKFILL_STATE_CANCELLED,
}
_ALLOWED = (Overlap.ALLOW, Overlap.BUFFER_ALL)


class BackfillCalls:
    """One method a call: request -> reply, or one of model.errors."""

    def __init__(self, backfills: Backfills, verbs: Verbs) -> None:
        self._backfills = backfills
        self._verbs = verbs

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {
            "CreateBackfill": once(self._verbs, self.create, wire.CreateBackfillResponse),
            "GetBackfill": self.get,
            "ListBackfills": self.list,
            "CancelBackfill": once(self._verbs, self.cancel, wire.CancelBackfillResponse),
        }

    async def create(self, request: wire.CreateBackfillRequest) -> wire.CreateBackfillResponse:
        call = hash_of("CreateBackfill", request)
        name = _name_of(request.namespace, request.schedule_id, request.backfill_id or call)
        begun = await self._backfills.begin(name, call, _span_of(request, self._verbs.now_ms()))
        return wire.CreateBackfillResponse(backfill=backfill_of(begun))

    async def get(self, request: wire.GetBackfillRequest) -> wire.GetBackfillResponse:
        name = _name_of(request.namespace, request.schedule_id, request.backfill_id)
        return wire.GetBackfillResponse(backfill=backfill_of(await self._backfills.get(name)))

    async def list(self, request: wire.ListBackfillsRequest) -> wire.ListBackfillsResponse:
        name = name_of(request.namespace, request.schedule_id)
        limit = at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        after = place_of(request).after
        found, rest = await self._backfills.page(name.namespace, name.schedule_id, after, limit)
        if not found and not after:
            # Those of one that was deleted are told as long as they are kept.
            await self._backfills.check_schedule(name.namespace, name.schedule_id)
        token = token_of(request, ListPlace(0, rest)) if rest is not None else ""
        return wire.ListBackfillsResponse(backfills=map(backfill_of, found), next_page_token=token)

    async def cancel(self, request: wire.CancelBackfillRequest) -> wire.CancelBackfillResponse:
        name = _name_of(request.namespace, request.schedule_id, request.backfill_id)
        cancelled = await self._backfills.cancel(name, hash_of("CancelBackfill", request))
        return wire.CancelBackfillResponse(backfill=backfill_of(cancelled))


def _name_of(namespace: str, schedule_id: str, backfill_id: str) -> BackfillName:
    """Raises Invalid."""
    name = name_of(namespace, schedule_id)
    if not _ID.fullmatch(backfill_id):
        wrong = f"The backfill_id {quoted(backfill_id)} is not allowed" if backfill_id else "The backfill_id is missing"
        raise Invalid(f"{wrong}: give 1 to {MAX_ID_CHARS} characters of A-Z a-z 0-9 . _ - / :", "backfill_id")
    return BackfillName(name.namespace, name.schedule_id, backfill_id)


def _span_of(request: wire.CreateBackfillRequest, now_ms: int) -> PastSpan:
    """Raises Invalid."""
    for field in ("start_time", "end_time"):
        if not request.HasField(field):
            raise Invalid(f"The {field} is missing: say from when on and before when instants get tasks.", field)
    begin_ms, end_ms = ms_from(request.start_time, "start_time"), ms_from(request.end_time, "end_time")
    if end_ms <= begin_ms:
        raise Invalid("The end_time is not later than the start_time: nothing lies between them.", "end_time")
    if end_ms > now_ms:
        raise Invalid(
            "The end_time is in the future, whose instants the schedule has tasks for by itself: give now at most.",
            "end_time",
        )
    rate = request.tasks_per_second or DEFAULT_RATE
    if rate > MAX_RATE:
        raise Invalid(f"tasks_per_second is {rate:,}: give at most {MAX_RATE:,}.", "tasks_per_second")
    return PastSpan(begin_ms, end_ms, rate, _overlap_of(request))


def _overlap_of(request: wire.CreateBackfillRequest) -> Overlap:
    """Raises Invalid."""
    overlap = OVERLAPS.get(request.overlap or wire.OVERLAP_POLICY_ALLOW)
    if overlap not in _ALLOWED:
        said = overlap.name if overlap is not None else str(request.overlap)
        raise Invalid(
            f"The overlap of a backfill is {said}, which would drop nearly all of its instants: use ALLOW for tasks "
            "beside each other, or BUFFER_ALL for one after the other.",
            "overlap",
        )
    return overlap


def backfill_of(shown: Backfilled) -> wire.Backfill:
    name, entry = shown
    return wire.Backfill(
        namespace=name.namespace,
        schedule_id=name.schedule_id,
        backfill_id=name.backfill_id,
        start_time=timestamp(entry.begin_ms),
        end_time=timestamp(entry.end_ms),
        tasks_per_second=entry.rate,
        overlap=OVERLAP_BACK[entry.overlap],
        state=_STATES[entry.state],
        created=entry.created,
        total=entry.counted,
        total_is_exact=entry.is_counted,
        create_time=timestamp(entry.made_ms),
        error=entry.error,
    )
