"""What operators ask: who is in the cluster, what a partition is at, and that an instance lets go of what it has.

The answers are the messages themselves: they are for programs that watch, and show what the server shows.
"""

from __future__ import annotations

from datetime import datetime

from timerd.sdk.checks import name, text
from timerd.sdk.lookups import Lookups
from timerd.sdk.times import instant_ms, timestamp_of_ms
from timerd.v1 import operate_pb2 as pb


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

    async def drain(self, instance: str) -> pb.DrainInstanceResponse:
        """The instance hands over all partitions and gets no new ones. It goes on serving callers and workers."""
        self._open()
        request = pb.DrainInstanceRequest(name=name(instance, "instance"))
        return await self._calls("DrainInstance", request, pb.DrainInstanceResponse)
