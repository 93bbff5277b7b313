"""What operators ask: who is in the cluster, what a partition is at, and that an instance lets go of what it has.

The answers are the messages themselves: they are for programs that watch, and show what the server shows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from datetime import datetime
from functools import partial
from typing import Any

from timerd.sdk.scheduling.filters import set_range
from timerd.sdk.scheduling.lookups import Lookups
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    MAX_PAYLOAD_BYTES,
    Purged,
    flag,
    instant_ms,
    invalid,
    name,
    new_request_id,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import operate_pb2 as pb
from timerd.v1.overview_service_pb2 import (
    AuditedCall,
    GetLoadRequest,
    GetLoadResponse,
    GetOverviewRequest,
    GetOverviewResponse,
    ListAuditedCallsRequest,
    ListAuditedCallsResponse,
)
from timerd.v1.timer_service_pb2 import PurgeDeadLettersRequest, PurgeDeadLettersResponse

MOST_ANNOUNCED = 1 << 40
_OVERVIEW = "OverviewService"


class Operations(Lookups):
    """The part of `Client` that needs the role `operate`."""

    async def cluster(self) -> pb.GetClusterResponse:
        """The call returns the instances of the cluster, and the partitions that each of them holds."""
        self._open()
        return await self._calls("GetCluster", pb.GetClusterRequest(), pb.GetClusterResponse)

    async def overview(self) -> GetOverviewResponse:
        """The call returns what all instances do just now: queues, workers, memory, lateness.

        Its figures come from counters, so the call costs the same however many tasks are pending.
        """
        self._open()
        return await self._calls("GetOverview", GetOverviewRequest(), GetOverviewResponse, _OVERVIEW)

    async def load(
        self, queue: str = "", *, start: datetime | None = None, end: datetime | None = None
    ) -> GetLoadResponse:
        """The call returns about how many tasks are due in each minute of a range, by the estimates of `count`.

        Args:
            queue: the queue. Default all queues of the namespace.
            start: an instant in the first minute, a datetime with a zone. Default now.
            end: the end of the range, a datetime with a zone; a day after the start at most. Default an hour after it.

        Raises:
            InvalidTask: the range is empty or too long.
        """
        self._open()
        request = GetLoadRequest(
            namespace=self._namespace,
            queue=text(queue, "queue"),
            start_time=None if start is None else timestamp_of_ms(instant_ms(start, "start")),
            end_time=None if end is None else timestamp_of_ms(instant_ms(end, "end")),
        )
        return await self._calls("GetLoad", request, GetLoadResponse, _OVERVIEW)

    async def audited(
        self,
        caller: str = "",
        method: str = "",
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        page_size: int = 0,
    ) -> AsyncIterator[AuditedCall]:
        """The call yields what operators did in the last 90 days, the newest first.

        Args:
            caller: what this caller did. Default any.
            method: this method, as "Purge". Default any.
            start: asked from this instant on, a datetime with a zone. Default all.
            end: asked before this instant, a datetime with a zone. Default now.
            page_size: how many are fetched at a time, up to 1,000. Default (and 0) 100.
        """
        self._open()
        request = ListAuditedCallsRequest(
            caller=text(caller, "caller"),
            method=text(method, "method"),
            start_time=None if start is None else timestamp_of_ms(instant_ms(start, "start")),
            end_time=None if end is None else timestamp_of_ms(instant_ms(end, "end")),
            page_size=whole_number(page_size, "page_size"),
        )
        ask = self._calls
        one_page = partial(ask, "ListAuditedCalls", request, ListAuditedCallsResponse, _OVERVIEW)
        async for page in pages(request, one_page):
            for call in page.calls:
                yield call

    async def purge_dead_letters(
        self,
        queue: str = "",
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        force: bool = False,
    ) -> Purged:
        """The call removes dead letters for good. Without `force` it only says how many these are.

        Those that halt their ordering keys stay: `staying` of what is returned counts them.

        Args:
            queue: dead letters of this queue. Default those of all queues.
            start: those that died from this instant on, a datetime with a zone. Default all.
            end: those that died before this instant, a datetime with a zone. Default all.
            force: whether they are removed. Default no. With it, `queue`, `start` or `end` must be given.
        """
        self._open()
        if flag(force, "force") and not queue and start is None and end is None:
            raise invalid("A purge of all dead letters is not done: give `queue`, `start` or `end`.", "queue")
        request = PurgeDeadLettersRequest(namespace=self._namespace, queue=text(queue, "queue"), force=force)
        set_range(request, start, end)
        total = halting = 0

        def ask() -> Coroutine[Any, Any, PurgeDeadLettersResponse]:
            request.request_id = new_request_id()
            return self._calls("PurgeDeadLetters", request, PurgeDeadLettersResponse)

        async for page in pages(request, ask):
            total += page.purged
            halting += page.halting
        purged = Purged(total)
        purged.dry_run, purged.staying = not force, halting
        return purged

    async def partition(
        self, time: datetime, shard: int | None = None, *, queue: str = "", count_rows: bool = False
    ) -> pb.GetPartitionResponse:
        """The call returns what is known of the five minutes in which `time` lies, shard by shard.

        Args:
            time: an instant, a datetime with a zone.
            shard: the number of one shard. Default all.
            queue: the queue whose backlog there is asked for. Default none.
            count_rows: whether the rows in the store are counted, too, which takes longer. Default no.
        """
        self._open()
        request = pb.GetPartitionRequest(
            time=timestamp_of_ms(instant_ms(time, "time")),
            shard=shard,
            namespace=self._namespace,
            queue=text(queue, "queue"),
            count_rows=flag(count_rows, "count_rows"),
        )
        return await self._calls("GetPartition", request, pb.GetPartitionResponse)

    async def announce(self, time: datetime, tasks: int, *, payload_bytes: int = 0) -> pb.AnnounceLoadResponse:
        """The call announces a load: their bucket gets the shards that all instances need to fire it together.

        Call it before the tasks are there.

        Args:
            time: an instant in the five minutes in which the tasks will be due, a datetime with a zone.
            tasks: how many there will be, from 1 on.
            payload_bytes: about how large each payload will be, in bytes. Default 0.
        """
        self._open()
        request = pb.AnnounceLoadRequest(
            time=timestamp_of_ms(instant_ms(time, "time")),
            tasks=whole_number(tasks, "tasks", 1, MOST_ANNOUNCED),
            payload_bytes=whole_number(payload_bytes, "payload_bytes", 0, MAX_PAYLOAD_BYTES),
        )
        return await self._calls("AnnounceLoad", request, pb.AnnounceLoadResponse)

    async def sweep_zones(self, *zones: str) -> pb.SweepZonesResponse:
        """The call brings the data of time zones of the server that is asked into force.

        Schedules are armed anew by them, each once, while the call has long returned.

        Args:
            zones: names such as "Europe/Berlin". Default those that the last release of the data changed.
        """
        self._open()
        request = pb.SweepZonesRequest(zones=[name(each, "zones") for each in zones])
        return await self._calls("SweepZones", request, pb.SweepZonesResponse)

    async def drain(self, instance: str) -> pb.DrainInstanceResponse:
        """The call makes an instance hand over all of its partitions and take no new ones.

        It goes on serving callers and workers.

        Args:
            instance: the name of the instance.

        Raises:
            NotFound: there is no instance of this name.
            FailedPrecondition: there is no other instance to hand over to.
        """
        self._open()
        request = pb.DrainInstanceRequest(name=name(instance, "instance"))
        return await self._calls("DrainInstance", request, pb.DrainInstanceResponse)
