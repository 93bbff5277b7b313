"""One read of the settle records serves all who asked before it began, and nobody who asked after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Set

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.model.errors import StoreUnavailable
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.services.holding import settled_reads
from timerd.services.holding.settled_reads import INLINE_ENDINGS, SettledReads
from timerd.testing.contracts.build import digest

HERE = Partition(0, 0, 0)
ACKED, CARRIED, OPEN = (RowKey(n, digest("row", n), 0) for n in (1, 2, 3))
CARRY = Carry(CARRIED, CarryReason.RETRY, HERE, 5, 1)


class SlowStore(MemoryStore):
    """Counts the reads; each waits until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.records = 0
        self.has_begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.is_away = False

    async def settled(self, partition: Partition, known: Set[tuple[int, int]] = frozenset()) -> Sequence[SettleRecord]:
        self.reads += 1
        found = await super().settled(partition, known)
        self.records += len(found)
        self.has_begun.set()
        await self.gate.wait()
        if self.is_away:
            raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")
        return found


@pytest.fixture
async def store() -> SlowStore:
    made = SlowStore()
    entries = settle_entries([(ACKED, Outcome.ACKED), (CARRIED, Outcome.CARRIED)])
    await made.settle([SettleRecord(HERE, 1, 1, entries, (CARRY,))])
    return made


async def test_who_asks_together_shares_a_read(store: SlowStore) -> None:
    reads = SettledReads(store)
    asked = [asyncio.create_task(reads.endings(HERE)) for _ in range(300)]
    await store.has_begun.wait()
    store.gate.set()
    endings = await asyncio.gather(*asked)
    assert store.reads == 2, "one for the first, one for all others"
    for each in endings:
        assert each.of(ACKED).outcome is Outcome.ACKED
        assert (each.of(CARRIED).outcome, each.of(CARRIED).carry) == (Outcome.CARRIED, CARRY)
        assert each.of(OPEN).outcome is None


async def test_who_asks_during_a_read_is_answered_from_the_next(store: SlowStore) -> None:
    reads = SettledReads(store)
    early = asyncio.create_task(reads.endings(HERE))
    await store.has_begun.wait()
    await store.settle([SettleRecord(HERE, 1, 2, settle_entries([(OPEN, Outcome.CANCELLED)]))])
    late = [asyncio.create_task(reads.endings(HERE)) for _ in range(300)]
    await asyncio.sleep(0)
    store.gate.set()
    assert (await early).of(ACKED).outcome is Outcome.ACKED
    assert {each.of(OPEN).outcome for each in await asyncio.gather(*late)} == {Outcome.CANCELLED}
    assert store.reads == 2


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others(store: SlowStore) -> None:
    reads = SettledReads(store)
    _, hasty, patient = [asyncio.create_task(reads.endings(HERE)) for _ in range(3)]
    await asyncio.sleep(0)
    hasty.cancel()
    store.gate.set()
    assert (await patient).of(ACKED).outcome is Outcome.ACKED


async def test_an_error_is_told_to_all_and_the_next_read_is_a_new_one(store: SlowStore) -> None:
    reads = SettledReads(store)
    store.is_away = True
    asked = [asyncio.create_task(reads.endings(HERE)) for _ in range(3)]
    store.gate.set()
    assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {StoreUnavailable}
    store.is_away = False
    assert (await reads.endings(HERE)).of(ACKED).outcome is Outcome.ACKED


async def test_a_record_is_read_once(store: SlowStore) -> None:
    reads = SettledReads(store)
    store.gate.set()
    await reads.endings(HERE)
    await store.settle([SettleRecord(HERE, 2, 1, settle_entries([(OPEN, Outcome.CANCELLED)]))])
    endings = await reads.endings(HERE)
    assert (store.reads, store.records) == (2, 2)
    assert [endings.of(key).outcome for key in (ACKED, OPEN)] == [Outcome.ACKED, Outcome.CANCELLED]


def shard(number: int) -> Partition:
    return Partition(0, 0, number)


async def endings_in(store: SlowStore, partition: Partition, count: int) -> None:
    keys = [RowKey(n, digest(f"of {partition.shard}", n), 0) for n in range(count)]
    await store.settle([SettleRecord(partition, 1, 1, settle_entries([(key, Outcome.ACKED) for key in keys]))])


async def test_the_records_of_all_shards_of_a_bucket_are_read_once(store: SlowStore) -> None:
    """A bucket has as many as it has instances and more, and after a crash all of them are asked about in turn."""
    reads, shards = SettledReads(store), [shard(number) for number in range(1, 25)]
    store.gate.set()
    for each in shards:
        await endings_in(store, each, 10)
    for each in 2 * shards:
        await reads.endings(each)
    assert store.records == len(shards)


async def test_what_is_kept_has_an_end(store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_reads, "KEPT_ENDINGS", 25)
    reads, shards = SettledReads(store), [shard(number) for number in (1, 2, 3)]
    store.gate.set()
    for each in shards:
        await endings_in(store, each, 10)
        await reads.endings(each)
    assert store.records == 3
    await reads.endings(shards[2])
    assert store.records == 3
    await reads.endings(shards[0])
    assert store.records == 4, "what was asked about longest ago is read again"


@pytest.mark.parametrize("order", [(1, 2), (2, 1)], ids=["in turn", "the older one late"])
async def test_of_two_holders_that_ended_one_row_the_later_one_counts(store: SlowStore, order: tuple[int, int]) -> None:
    """Whichever record is there first: that of a holder which had been taken over may come when the next one has ended
    what it had begun to carry."""
    records = {
        1: SettleRecord(HERE, 3, 7, settle_entries([(OPEN, Outcome.CARRIED)]), (CARRY._replace(source=OPEN),)),
        2: SettleRecord(HERE, 4, 1, settle_entries([(OPEN, Outcome.ACKED)])),
    }
    reads = SettledReads(store)
    store.gate.set()
    for token in order:
        await store.settle([records[token]])
        endings = await reads.endings(HERE)
    assert (endings.of(OPEN).outcome, endings.of(OPEN).carry) == (Outcome.ACKED, None)
    anew = await SettledReads(store).endings(HERE)
    assert (anew.of(OPEN).outcome, anew.of(OPEN).carry) == (Outcome.ACKED, None)


async def test_many_endings_are_known_as_few_are(store: SlowStore) -> None:
    store.gate.set()
    many = [RowKey(n, digest("many", n), 0) for n in range(INLINE_ENDINGS + 1)]
    await store.settle([SettleRecord(HERE, 1, 2, settle_entries([(key, Outcome.ACKED) for key in many]))])
    endings = await SettledReads(store).endings(HERE)
    assert {endings.of(key).outcome for key in many} == {Outcome.ACKED}
    assert endings.of(CARRIED).carry == CARRY


async def test_how_many_are_kept_is_known_without_a_look_at_all(
    store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancels of a month's tasks ask about 8,640 partitions, each several times."""
    monkeypatch.setattr(settled_reads, "KEPT_ENDINGS", 20)
    reads = SettledReads(store)
    store.gate.set()
    for number in (1, 2, 1, 3, 2, 4):
        await endings_in(store, shard(number), 8)
        await reads.endings(shard(number))
        assert reads._kept_count == sum(endings.count for endings, _ in reads._kept.values())
    assert len(reads._kept) == 2
    reads.forget()
    assert reads._kept_count == 0
