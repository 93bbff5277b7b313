"""A bucket that is found hot while it is written gets more shards, and its second is fired by all together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from timerd.core import heat
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.sdk.times import instant_ms
from timerd.testing import Cluster
from timerd.testing.server import CONFIG
from timerd.worker import Delivery

NAMES = ("a", "b", "c")
TASKS = 2_000
MESSAGE = 100
DEFAULT_SHARDS = 4


async def test_one_second_of_many_tasks_is_fired_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat, "SHARD_ROWS", 100)
    came: Counter[bytes] = Counter()
    by_scope: Counter[str] = Counter()
    async with Cluster(*NAMES, config=replace(CONFIG, store="cassandra")) as cluster:
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
            items = [(b"%d" % n, second + timedelta(milliseconds=n % 1000)) for n in range(start, start + MESSAGE)]
            await clients[start // MESSAGE % len(clients)].schedule_many("mails", items)
            await cluster.settle()
        bucket_ms = bucket_of(instant_ms(second, "second"))
        [entry] = await cluster.store.catalogue(TIME_SCOPE, bucket_ms, bucket_ms + 1)
        assert entry.shard_count > DEFAULT_SHARDS
        await cluster.advance(second - cluster.now - timedelta(seconds=2))
        partitions = [Partition(TIME_SCOPE, bucket_ms, shard) for shard in range(entry.shard_count)]
        holders = await cluster.holders(*partitions)
        waiting = {
            name: sum(m.rows.waiting.rows for m in cluster.instances[name].node.scheduler.machines.values())
            for name in NAMES
        }
        await cluster.advance(seconds=5)
    assert set(holders) == set(NAMES)
    assert sum(waiting.values()) == TASKS
    # Of twelve shards and more, an even share would be a third.
    assert min(waiting.values()) > TASKS / 12
    assert len(by_scope) > DEFAULT_SHARDS
    assert len(came) == TASKS
    assert set(came.values()) == {1}
