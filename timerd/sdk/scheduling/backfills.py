"""Backfills of schedules: their calls, and what users get back of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from timerd.sdk.scheduling.schedule_link import ScheduleLink, request_id_of
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    OVERLAP,
    OVERLAP_NAMES,
    _WireEnum,
    datetime_of_ms,
    instant_ms,
    ms_of_timestamp,
    name,
    one_of,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import schedule_service_pb2 as pb


class BackfillState(_WireEnum):
    """A backfill's state says whether it creates tasks.

    Attributes:
        UNSPECIFIED: a state of a later server, which this release does not know.
        RUNNING: it creates tasks.
        DONE: all its tasks are created and due; with "buffer_all" the last one has ended.
        CANCELLED: it was cancelled, or its schedule was deleted.
    """

    UNSPECIFIED = 0
    RUNNING = 1
    DONE = 2
    CANCELLED = 3


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill creates tasks for the instants of a span of the past.

    Args:
        id: its id, among those of the schedule.
        schedule_id: the id of the schedule.
        start: the begin of the span in UTC, part of it.
        end: the end of the span in UTC, not part of it.
        rate: how many tasks a second it creates at most.
        overlap: "allow", or "buffer_all": one after the other.
        state: whether it goes on.
        created: how many tasks were created.
        total: how many instants the span has, as far as they are counted.
        total_is_exact: whether all of them are counted.
        create_time: when it was created, in UTC.
        error: why it was cancelled without a call, or why its work fails again and again; empty where all is well.
    """

    id: str
    schedule_id: str
    start: datetime
    end: datetime
    rate: int
    overlap: str
    state: BackfillState
    created: int
    total: int
    total_is_exact: bool
    create_time: datetime
    error: str

    @classmethod
    def of(cls, message: pb.Backfill) -> Backfill:
        """The backfill says what the message `message` says."""
        return cls(
            message.backfill_id,
            message.schedule_id,
            datetime_of_ms(ms_of_timestamp(message.start_time)),
            datetime_of_ms(ms_of_timestamp(message.end_time)),
            message.tasks_per_second,
            OVERLAP_NAMES.get(message.overlap, ""),
            BackfillState(message.state),
            message.created,
            message.total,
            message.total_is_exact,
            datetime_of_ms(ms_of_timestamp(message.create_time)),
            message.error,
        )


class ScheduleBackfills(ScheduleLink):
    """The backfills of a client's schedules."""

    async def backfill(
        self,
        schedule_id: str,
        *,
        start: datetime,
        end: datetime,
        rate: int = 100,
        overlap: str = "allow",
        backfill_id: str = "",
        request_id: str | None = None,
    ) -> Backfill:
        """The call begins to create tasks for the instants of a schedule within a span of the past.

        The tasks are as the schedule is now. The backfill goes on by itself, whatever becomes of the schedule, until
        the schedule is deleted.

        Args:
            schedule_id: the id of the schedule.
            start: the begin of the span, a datetime with a zone; part of it.
            end: the end of the span, not part of it; now at the latest.
            rate: how many tasks a second it creates at most, up to 10,000. Default 100.
            overlap: "allow" (its tasks come beside each other; the default), or "buffer_all" (the next one comes when
                the one before has ended).
            backfill_id: a name of the caller's choice, unique among the schedule's. Default one is made.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such schedule.
            AlreadyExists: the schedule has a backfill of this id.
        """
        request = pb.CreateBackfillRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            backfill_id=text(backfill_id, "backfill_id"),
            start_time=timestamp_of_ms(instant_ms(start, "start")),
            end_time=timestamp_of_ms(instant_ms(end, "end")),
            tasks_per_second=whole_number(rate, "rate", 1, 1 << 31),
            overlap=one_of(overlap, "overlap", OVERLAP),  # type: ignore[arg-type]
        )
        return Backfill.of((await self._call("CreateBackfill", request, pb.CreateBackfillResponse)).backfill)

    async def get_backfill(self, schedule_id: str, backfill_id: str) -> Backfill:
        """The call returns a backfill as it is now; for a week after its end.

        Args:
            schedule_id: the id of the schedule.
            backfill_id: the id of the backfill.

        Raises:
            NotFound: there is no such backfill.
        """
        request = pb.GetBackfillRequest(
            namespace=self._open(),
            schedule_id=name(schedule_id, "schedule_id"),
            backfill_id=name(backfill_id, "backfill_id"),
        )
        return Backfill.of((await self._call("GetBackfill", request, pb.GetBackfillResponse)).backfill)

    async def list_backfills(self, schedule_id: str) -> AsyncIterator[Backfill]:
        """The call goes through the backfills of a schedule, those that ended in the last week included.

        Args:
            schedule_id: the id of the schedule.
        """
        request = pb.ListBackfillsRequest(namespace=self._open(), schedule_id=name(schedule_id, "schedule_id"))
        asked = pages(request, lambda: self._call("ListBackfills", request, pb.ListBackfillsResponse))
        async for page in asked:
            for each in page.backfills:
                yield Backfill.of(each)

    async def cancel_backfill(self, schedule_id: str, backfill_id: str, *, request_id: str | None = None) -> Backfill:
        """The call ends a backfill: when it returns, no task of it starts that had not started. Else it stays as it is.

        Args:
            schedule_id: the id of the schedule.
            backfill_id: the id of the backfill.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: there is no such backfill.
        """
        request = pb.CancelBackfillRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            schedule_id=name(schedule_id, "schedule_id"),
            backfill_id=name(backfill_id, "backfill_id"),
        )
        return Backfill.of((await self._call("CancelBackfill", request, pb.CancelBackfillResponse)).backfill)
