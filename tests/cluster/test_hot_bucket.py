"""A bucket that is announced, or found hot while it is written, has more shards: all fire its second together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.client import TimerdError
from timerd.core.cluster import load_estimate
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.sdk.values.times import instant_ms
from timerd.services.holding import shards
from timerd.testing import Cluster
from timerd.worker import Delivery

NAMES = ("a", "b", "c")
TASKS = 2_000
MESSAGE = 20
DEFAULT_SHARDS = 4


class SharedStore(MemoryStore):
    traits = replace(MemoryStore.traits, is_shared=True, commit_is_cheap=False)


async def test_one_second_of_many_tasks_is_fired_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_estimate, "SHARD_ROWS", 100)
    monkeypatch.setattr(shards, "REFRESH_S", 0.0)
    came: Counter[bytes] = Counter()
    by_scope: Counter[str] = Counter()
    async with Cluster(*NAMES, store=SharedStore()) as cluster:
        worker = cluster.worker("a", "b")

        @worker.on_batch("mails")
        async def take(deliveries: list[Delivery]) -> None:
            for each in deliveries:
                assert cluster.now >= second
                came[each.payload] += 1
                by_scope[each.fencing_scope] += 1

        await worker.start()
        second = cluster.now.replace(microsecond=0) + timedelta(seconds=12)
        clients = [cluster.client(name) for name in NAMES]
        for start in range(0, TASKS, MESSAGE):
            # The clock is turned to each instant at which something is due.
            items = [(b"%d" % n, second + timedelta(milliseconds=n % 100 * 10)) for n in range(start, start + MESSAGE)]
            await clients[start // MESSAGE % len(clients)].schedule_many("mails", items)
            await cluster.settle()
        bucket_ms = bucket_of(instant_ms(second, "second"))
        [entry] = await cluster.store.catalogue(TIME_SCOPE, bucket_ms, bucket_ms + 1)
        assert entry.shard_count > DEFAULT_SHARDS
        await cluster.advance(second - cluster.now - timedelta(seconds=2))
        partitions = [Partition(TIME_SCOPE, bucket_ms, shard) for shard in range(entry.shard_count)]
        holders = await cluster.holders(*partitions)
        waiting = {
            name: sum(m.waiting_rows for m in cluster.instances[name].node.scheduler.machines.values())
            for name in NAMES
        }
        await cluster.advance(seconds=5)
    assert set(holders) == set(NAMES)
    assert sum(waiting.values()) == TASKS
    # An even share would be a third; which shard a message goes to is by chance.
    assert min(waiting.values()) > TASKS / 16
    assert len(by_scope) > DEFAULT_SHARDS
    assert len(came) == TASKS
    assert set(came.values()) == {1}


async def test_an_announced_bucket_is_ready_for_all_before_its_first_task() -> None:
    async with Cluster(*NAMES, store=SharedStore()) as cluster:
        second = cluster.now.replace(microsecond=0) + timedelta(hours=1)
        bucket_ms = bucket_of(instant_ms(second, "second"))
        announced = await cluster.client("a").announce(second, 700_000, payload_bytes=200)
        assert announced.bucket_start_ms == bucket_ms
        assert announced.shard_count >= 700_000 / load_estimate.SHARD_ROWS
        assert (await cluster.client("b").announce(second, 10)).shard_count == announced.shard_count, "never fewer"
        await cluster.advance(seconds=5)
        for n in range(200):
            await cluster.client(NAMES[n % len(NAMES)]).schedule("mails", b"%d" % n, at=second)
        [entry] = await cluster.store.catalogue(TIME_SCOPE, bucket_ms, bucket_ms + 1)
        assert DEFAULT_SHARDS < entry.shard_count <= announced.shard_count


@pytest.mark.parametrize(("hours", "tasks", "says"), [(1, 0, "give a whole number from 1"), (-1, 5, "are over")])
async def test_what_cannot_be_announced(hours: int, tasks: int, says: str) -> None:
    async with Cluster("a", store=SharedStore()) as cluster:
        with pytest.raises(TimerdError, match=says):
            await cluster.client("a").announce(cluster.now + timedelta(hours=hours), tasks)
