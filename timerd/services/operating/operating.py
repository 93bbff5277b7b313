"""What operators ask of a cluster (`timerd cluster`, `partition`, `drain`, `announce`), answered by whichever instance
they ask.

It reads the store and asks each living instance for its report, all at once; who does not answer within two seconds is
shown without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from timerd.core.cluster import Seen
from timerd.core.instance_machine import shards_of
from timerd.model.errors import Invalid, NotFound, Precondition
from timerd.model.instance import InstanceEntry, InstanceState, instance_key
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of, scope_of
from timerd.model.shard_counts import MOST_SHARDS
from timerd.model.storage import BucketEntry
from timerd.ports import Clock, Store
from timerd.services.calls.fields import namespace_of, plain_text, queue_of, quoted
from timerd.services.calls.replies import duration, optional_timestamp
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.membership import Member
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.shards import Shards
from timerd.services.operating.colleagues import Colleagues
from timerd.services.operating.inspect_service import drain
from timerd.services.operating.partition_facts import bucket_entry, partition_info
from timerd.services.operating.reporting import Reporting
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.v1 import operate_pb2 as pb

# The end of the year 9999, after which a Timestamp names no instant.
END_MS = 253_402_300_800_000
# A bucket may stay open so much longer than its last worker may hold it up.
OVERDUE_GRACE_MS = 120_000
MOST_ANNOUNCED = 1 << 40
MAX_ZONE_CHARS = 64
# Of one bucket, read at a time.
SHARDS_AT_ONCE = 8
STATES = {
    InstanceState.SERVING: pb.INSTANCE_STATE_SERVING,
    InstanceState.LEAVING: pb.INSTANCE_STATE_LEAVING,
    InstanceState.LEFT: pb.INSTANCE_STATE_LEFT,
}


class Operating:
    """One method a verb: request -> reply, or one of model.errors. `colleagues` is None where there are none."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        time: EngineTime,
        clock: Clock,
        reporting: Reporting,
        colleagues: Colleagues | None,
        shards: Shards,
        max_mark_lag_ms: int,
        zones: ZoneSweep,
    ) -> None:
        self._zones = zones
        self._store = store
        self._shards = shards
        self._scheduler = scheduler
        self._membership = scheduler.membership
        self._time = time
        self._clock = clock
        self._reporting = reporting
        self._colleagues = colleagues
        self._overdue_ms = max_mark_lag_ms + OVERDUE_GRACE_MS

    # -- the cluster ----------------------------------------------------------------------------------------------

    async def get_cluster(self, _request: pb.GetClusterRequest) -> pb.GetClusterResponse:
        await self._membership.refresh()
        instances = await asyncio.gather(*(self._instance(seen) for seen in await self._roster()))
        entries = await self._store.catalogue(None, -(1 << 62), int(self._time.exact_ms()))
        backlogs = [e for e in entries if e.scope != TIME_SCOPE and not e.finished]
        overdue = self._overdue(entries)
        return pb.GetClusterResponse(
            instances=instances,
            answered_by=self._membership.name,
            overdue_buckets=len(overdue),
            oldest_overdue_bucket=optional_timestamp(min(overdue, default=0)),
            backlog_buckets=len(backlogs),
        )

    async def _roster(self) -> list[Seen]:
        """This one among them; sorted by name."""
        me, boot_ms = self._membership, self._clock.boot_ms()
        stored = (await self._store.read([instance_key(me.name)]))[0]
        entry = InstanceEntry.from_bytes(stored) if stored else InstanceEntry(me.name, me.address_of(me.name), 0, 0)
        if not isinstance(me, Member):
            return [Seen(entry, False, 0.0)]
        own = Seen(entry, False, me.trust.age_ms(boot_ms))
        return sorted([own, *me.members.seen(boot_ms)], key=lambda seen: seen.entry.name)

    def _overdue(self, entries: Sequence[BucketEntry]) -> list[int]:
        """Starts of the buckets that should have been over."""
        limit_ms = int(self._time.exact_ms()) - self._overdue_ms
        times = [e for e in entries if e.scope == TIME_SCOPE and not e.finished]
        return [e.bucket_ms for e in times if Partition(TIME_SCOPE, e.bucket_ms, 0).end_ms < limit_ms]

    async def _instance(self, seen: Seen) -> pb.Instance:
        entry = seen.entry
        shown = pb.Instance(
            name=entry.name,
            address=entry.address,
            state=pb.INSTANCE_STATE_DEAD if seen.is_dead else STATES[entry.state],
            incarnation=entry.incarnation,
            heartbeat_age=duration(int(seen.age_ms)),
        )
        if not seen.is_dead and entry.state is not InstanceState.LEFT:
            await self._add_report(shown)
        return shown

    async def _add_report(self, shown: pb.Instance) -> None:
        """Its clock was read between the two looks at one's own."""
        asked_ms = self._time.exact_ms()
        report = await self._report_of(shown.name, shown.address)
        heard_ms = self._time.exact_ms()
        if report is None:
            return
        shown.report.CopyFrom(report)
        if shown.name != self._membership.name:
            shown.clock_difference_ms = round(report.engine_time_ms - (asked_ms + heard_ms) / 2)
            shown.clock_uncertainty_ms = round((heard_ms - asked_ms) / 2) + 1

    async def _report_of(self, name: str, address: str) -> pb.InstanceReport | None:
        if name == self._membership.name:
            return await self._reporting.report()
        return await self._colleagues.inspect(address) if self._colleagues is not None else None

    # -- one partition --------------------------------------------------------------------------------------------

    async def get_partition(self, request: pb.GetPartitionRequest) -> pb.GetPartitionResponse:
        bucket_ms = _bucket_of(request)
        scope = TIME_SCOPE
        if request.queue:
            scope = scope_of(namespace_of(request.namespace), queue_of(request.queue, "queue"))
        entry = await bucket_entry(self._store, scope, bucket_ms)
        partitions = _chosen(request, entry, scope, bucket_ms)
        infos = await self._infos(partitions, counts_rows=request.count_rows)
        return pb.GetPartitionResponse(
            announced=entry is not None,
            finishing=entry is not None and entry.finishing,
            finished=entry is not None and entry.finished,
            shard_count=entry.shard_count if entry is not None else 0,
            partitions=infos,
        )

    async def _infos(self, partitions: Sequence[Partition], *, counts_rows: bool) -> list[pb.PartitionInfo]:
        a_few = asyncio.Semaphore(SHARDS_AT_ONCE)

        async def read(partition: Partition) -> pb.PartitionInfo:
            async with a_few:
                return await partition_info(self._store, partition, counts_rows=counts_rows)

        infos = await asyncio.gather(*map(read, partitions))
        views = await self._views({info.control.holder: info.control.address for info in infos})
        for partition, info in zip(partitions, infos, strict=True):
            info.placed_on = self._scheduler.hand_over.place_of(partition)
            if (view := views.get((info.control.holder, partition))) is not None:
                info.held.CopyFrom(view)
        return infos

    async def _views(self, holders: Mapping[str, str]) -> dict[tuple[str, Partition], pb.HeldPartition]:
        """What each of these (name -> address) says of the partitions that it holds."""
        names = [name for name in holders if name]
        reports = await asyncio.gather(*(self._report_of(name, holders[name]) for name in names))
        return {
            (name, Partition(held.scope, held.bucket_start_ms, held.shard)): held
            for name, report in zip(names, reports, strict=True)
            for held in (report.partitions if report is not None else ())
        }

    # -- what is coming -------------------------------------------------------------------------------------------

    async def announce_load(self, request: pb.AnnounceLoadRequest) -> pb.AnnounceLoadResponse:
        bucket_ms = _bucket_of(request)
        if not 0 < request.tasks <= MOST_ANNOUNCED:
            raise Invalid(f"{request.tasks} tasks cannot be announced: 1 to {MOST_ANNOUNCED} are allowed.", "tasks")
        if bucket_ms + BUCKET_MS <= self._time.exact_ms():
            raise Invalid("These five minutes are over: announce a time that is still to come.", "time")
        count = await self._shards.announce(bucket_ms, request.tasks, request.tasks * request.payload_bytes)
        return pb.AnnounceLoadResponse(bucket_start_ms=bucket_ms, shard_count=count)

    async def sweep_zones(self, request: pb.SweepZonesRequest) -> pb.SweepZonesResponse:
        """It goes on when this is answered, by whichever instance has these data."""
        asked = await self._zones.ask([plain_text(zone, MAX_ZONE_CHARS, "zones", "zone") for zone in request.zones])
        return pb.SweepZonesResponse(tzdata=self._zones.own.version, zones=asked.changed if asked is not None else ())

    # -- draining -------------------------------------------------------------------------------------------------

    async def drain_instance(self, request: pb.DrainInstanceRequest) -> pb.DrainInstanceResponse:
        await self._membership.refresh()
        if not isinstance(self._membership, Member):
            raise Precondition(
                "This server is alone on its data, so there is nobody to hand over to: stop it with SIGTERM.",
                "NO_SUCCESSOR",
            )
        known = {seen.entry.name: seen for seen in await self._roster()}
        seen = known.get(request.name)
        if seen is None or seen.is_dead or seen.entry.state is InstanceState.LEFT:
            living = ", ".join(name for name, each in known.items() if not each.is_dead)
            raise NotFound(
                f"No living instance is named {quoted(request.name)}: the instances are {living}.", "INSTANCE_NOT_FOUND"
            )
        if not set(self._membership.live()) - {request.name}:
            raise Precondition(
                f"No other instance would take over from {request.name}, and nothing would fire: start another one "
                "first.",
                "NO_SUCCESSOR",
            )
        return pb.DrainInstanceResponse(partitions_held=await self._drain(request.name, seen.entry.address))

    async def _drain(self, name: str, address: str) -> int | None:
        """None: it did not answer."""
        if name == self._membership.name:
            return await drain(self._scheduler)
        return await self._colleagues.drain(address, name) if self._colleagues is not None else None


def _bucket_of(request: pb.GetPartitionRequest | pb.AnnounceLoadRequest) -> int:
    if not request.HasField("time"):
        raise Invalid("The bucket is missing: give `time`, any instant that lies in it.", "time")
    return bucket_of(_instant_ms(request.time))


def _instant_ms(time: Timestamp) -> int:
    at_ms = time.seconds * 1000 + time.nanos // 1_000_000
    if not 0 <= at_ms < END_MS:
        raise Invalid("There is no bucket at this instant: give one from 1970 to 9999.", "time")
    return at_ms


def _chosen(request: pb.GetPartitionRequest, entry: BucketEntry | None, scope: int, bucket_ms: int) -> list[Partition]:
    """The shard that was asked for, or all that the catalogue knows of."""
    if not request.HasField("shard"):
        return shards_of(entry) if entry is not None else []
    if request.shard >= MOST_SHARDS:
        raise Invalid(f"{request.shard} is not a shard: at most {MOST_SHARDS - 1} is allowed.", "shard")
    return [Partition(scope, bucket_ms, request.shard)]
