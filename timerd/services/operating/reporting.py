"""What an instance says of itself to operators: its clocks, its lease, and each partition that it holds."""

from __future__ import annotations

from collections.abc import Callable

from timerd.config import own_version
from timerd.core.partition import PartitionMachine, Phase
from timerd.ports import Store
from timerd.services.calls.reads import DeliveryFacts
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.schedules.zone_sweep import ZoneSweep
from timerd.v1 import operate_pb2 as pb

LOADING = frozenset({Phase.ACQUIRE, Phase.RECOVER, Phase.LOAD})


class Reporting:
    """Of one instance."""

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        time: EngineTime,
        delivery: Callable[[], DeliveryFacts],
        zones: ZoneSweep,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._time = time
        self._delivery = delivery
        self._zones = zones

    async def report(self) -> pb.InstanceReport:
        """The clock is read last, so that who asks can compare it with its own."""
        schema_version = (await self._store.facts()).schema_version
        delivery = self._delivery()
        machines = sorted(self._scheduler.machines.values(), key=lambda machine: machine.partition)
        now_ms = int(self._time.exact_ms())
        return pb.InstanceReport(
            version=own_version(),
            schema_version=schema_version,
            engine_time_ms=now_ms,
            wall_offset_ms=round(self._time.difference_ms),
            clock_trusted=self._time.trusted,
            lease_trusted=self._time.is_sure,
            in_flight=delivery.in_flight,
            workers=delivery.workers,
            partitions=[held_partition(machine, now_ms) for machine in machines],
            tzdata=self._zones.own.version,
            tzdata_advice=self._zones.sentences(),
        )


def held_partition(machine: PartitionMachine, now_ms: int) -> pb.HeldPartition:
    scope, bucket_ms, shard = machine.partition
    return pb.HeldPartition(
        scope=scope,
        bucket_start_ms=bucket_ms,
        shard=shard,
        phase=machine.phase.value,
        fencing_token=machine.control.token if machine.control is not None else 0,
        lag_ms=lag_ms(machine, now_ms),
        waiting=machine.waiting_rows,
        open=machine.open_rows,
    )


def lag_ms(machine: PartitionMachine, now_ms: int) -> int:
    """How long the oldest task that is due has not ended. Until all rows are known it may be any."""
    if machine.phase in LOADING:
        return max(0, now_ms - machine.floor_ms)
    oldest_ms = machine.unsettled_ms()
    return max(0, now_ms - oldest_ms) if oldest_ms is not None else 0
