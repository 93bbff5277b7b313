"""The end of buckets: finished with the last of their shards, forgotten when their history is no longer kept."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.instance_machine import InstanceMachine, shards_of
from timerd.core.partition import PartitionMachine
from timerd.model.errors import StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.model.storage import BucketEntry, Cas, CasStatus
from timerd.ports import Store


class Finishing:
    def __init__(self, store: Store, instance: InstanceMachine, history_ms: int) -> None:
        self._store = store
        self._instance = instance
        self._history_ms = history_ms

    async def control_of(self, partition: Partition) -> tuple[Control | None, bool]:
        """By a serial read. Where there is none: whether the bucket is being finished, read after that. The first shard
        of a bucket is seen to by the instance that finishes it, whatever was announced. One that was announced too late
        for that is over: nobody would take it again when this instance has let go of it."""
        stored = (await self._store.read([control_key(partition)]))[0]
        if stored is not None or partition.shard == 0:
            return (Control.from_bytes(stored) if stored is not None else None), False
        entries = await self._store.catalogue(partition.scope, partition.bucket_ms, partition.bucket_ms + 1)
        if any(entry.finished for entry in entries):
            return await self._over(partition), False
        return None, any(entry.finishing for entry in entries)

    async def _over(self, partition: Partition) -> Control:
        """No row there was acknowledged: its bucket was being finished before the shard was announced, or it would have
        been waited for."""
        key, over = control_key(partition), Control.over(partition.end_ms)
        result = (await self._store.cas([Cas(key, None, over.to_bytes())]))[0]
        if result.status is CasStatus.UNKNOWN:
            raise StoreUnknown("Whether a partition of a finished bucket is over is not known.")
        stored = None if result.status is CasStatus.APPLIED else result.current
        return over if stored is None else Control.from_bytes(stored)

    async def finish(self, partition: Partition) -> bool:
        """The shard is done. Whether its bucket is: of shards that end at the same time the later one sees both."""
        scope, bucket_ms, _ = partition
        entries = await self._store.catalogue(scope, bucket_ms, bucket_ms + 1)
        shards = [p for entry in entries for p in shards_of(entry)]
        stored = await self._store.read([control_key(p) for p in shards])
        is_finished = all(raw is not None and Control.from_bytes(raw).finished for raw in stored)
        if is_finished:
            await self._store.finish_bucket(scope, bucket_ms, finished=True)
        return is_finished

    async def drop_expired(self, now_ms: int) -> None:
        """Forgets partitions whose history is no longer kept."""
        everything = await self._store.catalogue(None, -(1 << 62), now_ms)
        old = self._instance.expired(now_ms, self._history_ms, everything)
        stored = await self._store.read([control_key(partition) for partition in old])
        # What was caught up late is kept as long as what was on time, and a bucket as long as each of its shards.
        young = {
            (partition.scope, partition.bucket_ms)
            for partition, control in zip(old, stored, strict=True)
            if control is not None and Control.from_bytes(control).finished_at_ms + self._history_ms > now_ms
        }
        for partition in old:
            if (partition.scope, partition.bucket_ms) not in young:
                await self._store.drop(partition)


def open_backlogs(machines: Iterable[PartitionMachine], catalogue: Iterable[BucketEntry]) -> None:
    """A backlog closes only after each shard of its home has been verified to the end: its bucket is closed for all of
    them by one flag, and what is parked there later would be written again, behind others of its ordering key.
    `catalogue`: all buckets of time that may have a backlog."""
    unfinished = {entry.bucket_ms for entry in catalogue if not entry.finished}
    for machine in machines:
        machine.may_close |= machine.partition.bucket_ms not in unfinished
