"""The end of buckets that have several shards."""

from __future__ import annotations

from dataclasses import replace

from tests.services.scheduler_rig import trusted_time
from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition import Memory
from timerd.core.partition.holding import HoldingSettings, taken_over
from timerd.core.taken import QueueKey
from timerd.model.partition import TIME_SCOPE, Partition, scope_of
from timerd.model.registers import Control, control_key
from timerd.ports import Cas
from timerd.services.holding.finishing import Finishing
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.single_instance import SingleInstance
from timerd.testing.contracts.build import END_MS, START_MS, found_versions, key, message

HISTORY_MS = 86_400_000
MAILS = QueueKey("default", "mails")
SHARDS = [Partition(TIME_SCOPE, START_MS, shard) for shard in range(3)]


async def stored(*finished_at_ms: int) -> tuple[MemoryStore, Finishing]:
    """A bucket whose shards were finished then; 0: it was not."""
    store = MemoryStore()
    for shard, at_ms in zip(SHARDS, finished_at_ms, strict=True):
        await store.append([message(f"m{shard.shard}", key("a"), partition=shard)])
        await store.cas([Cas(control_key(shard), None, Control(5, "me", "", END_MS, END_MS, at_ms).to_bytes())])
    return store, Finishing(store, InstanceMachine(60_000), HISTORY_MS)


async def is_finished(store: MemoryStore) -> bool:
    [entry] = await store.catalogue(TIME_SCOPE, START_MS, END_MS)
    return entry.finished


async def test_a_bucket_is_finished_with_the_last_of_its_shards() -> None:
    store, finishing = await stored(END_MS, 0, END_MS)
    assert not await finishing.finish(SHARDS[0])
    assert not await is_finished(store)
    [before] = await store.read([control_key(SHARDS[1])])
    assert before is not None
    after = replace(Control.from_bytes(before), finished_at_ms=END_MS)
    await store.cas([Cas(control_key(SHARDS[1]), before, after.to_bytes())])
    assert await finishing.finish(SHARDS[1])
    assert await is_finished(store)


async def test_a_shard_that_is_announced_late_is_waited_for() -> None:
    store, finishing = await stored(END_MS, END_MS, END_MS)
    await store.append([message("late", key("b"), partition=Partition(TIME_SCOPE, START_MS, 7))])
    assert not await finishing.finish(SHARDS[0])


async def test_a_bucket_is_forgotten_with_all_its_shards_when_the_last_of_them_is_old() -> None:
    late_ms = END_MS + 3_600_000
    store, finishing = await stored(END_MS, late_ms, END_MS)
    await store.finish_bucket(TIME_SCOPE, START_MS, finished=True)
    await finishing.drop_expired(END_MS + HISTORY_MS + 600_000)
    assert [await found_versions(store, [key("a")], shard) for shard in SHARDS] == [[[0]]] * 3
    await finishing.drop_expired(late_ms + HISTORY_MS)
    assert [await found_versions(store, [key("a")], shard) for shard in SHARDS] == [[[]]] * 3
    assert not await store.catalogue(TIME_SCOPE, START_MS, END_MS)


async def test_a_shard_that_nobody_has_held_is_opened_closed_while_its_bucket_is_being_finished() -> None:
    store, finishing = await stored(END_MS, END_MS, END_MS)
    late = Partition(TIME_SCOPE, START_MS, 7)
    await store.append([message("late", key("b"), partition=late)])
    assert await finishing.control_of(late) == (None, False)
    await store.finish_bucket(TIME_SCOPE, START_MS, finished=False)
    assert await finishing.control_of(late) == (None, True)
    control, is_finishing = await finishing.control_of(SHARDS[0])
    assert control is not None
    assert not is_finishing
    assert taken_over(late, None, HoldingSettings("me", traits=MemoryStore.traits), END_MS, True).closing_ms == END_MS
    assert taken_over(late, None, HoldingSettings("me", traits=MemoryStore.traits), END_MS).closing_ms == START_MS


async def test_a_shard_that_is_announced_when_its_bucket_is_finished_is_over_for_who_takes_it() -> None:
    """Whoever took it would let go of it at a stop, and nobody would hold it again: its rows would wait for ever."""
    store, finishing = await stored(END_MS, END_MS, END_MS)
    await store.finish_bucket(TIME_SCOPE, START_MS, finished=True)
    late = Partition(TIME_SCOPE, START_MS, 7)
    await store.append([message("late", key("b"), partition=late)])
    over = Control.over(END_MS)
    assert [await finishing.control_of(late) for _ in range(2)] == [(over, False)] * 2
    assert over.finished
    assert await store.read([control_key(late)]) == [over.to_bytes()]


async def test_a_backlog_stays_open_until_the_last_shard_of_its_home_is_finished() -> None:
    """Its bucket is closed for all of its shards at once. What another shard of the home parks after that is written
    again elsewhere: behind others of its ordering key, and beside the row that the next holder has read."""
    store, _ = await stored(END_MS, 0, END_MS)
    settings, memory = HoldingSettings("me", traits=MemoryStore.traits), Memory(1 << 30)
    time, instance = trusted_time(), InstanceMachine(60_000)
    scheduler = Scheduler(store, time, settings, instance, memory, HISTORY_MS, SingleInstance("me"))
    backlog = Partition(scope_of(*MAILS), START_MS, 0)
    await store.append([message("parked", key("c"), partition=backlog)])
    scheduler.scopes[backlog.scope] = MAILS
    scheduler.hold(backlog)
    await scheduler.step(END_MS)
    assert not scheduler.machines[backlog].may_close
    await store.finish_bucket(TIME_SCOPE, START_MS, finished=True)
    await scheduler.step(END_MS)
    assert scheduler.machines[backlog].may_close
