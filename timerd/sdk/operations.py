"""What operators ask: who is in the cluster, what a partition is at, and that an instance lets go of what it has.

The answers are the messages themselves: they are for programs that watch, and show what the server shows.
"""

from __future__ import annotations

from datetime import datetime

from timerd.sdk.checks import MAX_PAYLOAD_BYTES, name, text, whole_number
from timerd.sdk.lookups import Lookups
from timerd.sdk.times import instant_ms, timestamp_of_ms
from timerd.v1 import operate_pb2 as pb

MOST_ANNOUNCED = 1 << 40


class Operations(Lookups):
    """The part of `Client` that needs the role `operate`."""

    async def cluster(self) -> pb.GetClusterResponse:
        """The instances, and the partitions that each of them holds."""
        self._open()
        return await self._calls("GetCluster", pb.GetClusterRequest(), pb.GetClusterResponse)

    async def partition(
        self, time: datetime, shard: int | None = None, *, queue: str = "", count_rows: bool = False
    ) -> pb.GetPartitionResponse:
        """The bucket in which `time` lies, or the backlog of `queue` there; all shards where none is named."""
        self._open()
        request = pb.GetPartitionRequest(
            time=timestamp_of_ms(instant_ms(time, "time")),
            shard=shard,
            namespace=self._namespace,
            queue=text(queue, "queue"),
            count_rows=count_rows,
        )
        return await self._calls("GetPartition", request, pb.GetPartitionResponse)

    async def announce(self, time: datetime, tasks: int, *, payload_bytes: int = 0) -> pb.AnnounceLoadResponse:
        """`tasks` will be due in the five minutes in which `time` lies, each with about `payload_bytes`: their bucket
        gets as many shards as all instances need to fire it together, before the tasks are there."""
        self._open()
        request = pb.AnnounceLoadRequest(
            time=timestamp_of_ms(instant_ms(time, "time")),
            tasks=whole_number(tasks, "tasks", 1, MOST_ANNOUNCED),
            payload_bytes=whole_number(payload_bytes, "payload_bytes", 0, MAX_PAYLOAD_BYTES),
        )
        return await self._calls("AnnounceLoad", request, pb.AnnounceLoadResponse)

    async def drain(self, instance: str) -> pb.DrainInstanceResponse:
        """The instance hands over all partitions and gets no new ones. It goes on serving callers and workers."""
        self._open()
        request = pb.DrainInstanceRequest(name=name(instance, "instance"))
        return await self._calls("DrainInstance", request, pb.DrainInstanceResponse)
