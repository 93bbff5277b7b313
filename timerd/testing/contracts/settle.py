"""Settle records: immutable, named by (partition, token, sequence), read in that order."""

from __future__ import annotations

import pytest

from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.ports import Store
from timerd.testing.contracts.build import HERE, NEXT, key
from timerd.testing.contracts.dead_letters import letter


def record(token: int, sequence: int, outcome: Outcome = Outcome.ACKED, *carries: Carry) -> SettleRecord:
    return SettleRecord(HERE, token, sequence, settle_entries([(key("a"), outcome)]), carries)


@pytest.mark.asyncio
class SettleContract:
    async def test_dead_letters_are_stored_with_the_record_that_ends_their_tasks(self, store: Store) -> None:
        buried = letter("a", 10)
        for _ in range(2):
            await store.settle([record(1, 1, Outcome.DEAD)], [buried])
        assert [r.sequence for r in await store.settled(HERE)] == [1]
        assert list(await store.get_dead_letters([buried.task_id])) == [buried]

    async def test_records_come_back_in_the_order_of_token_and_sequence(self, store: Store) -> None:
        await store.settle([record(2, 1), record(1, 10)])
        await store.settle([record(1, 9)])
        assert [(r.token, r.sequence) for r in await store.settled(HERE)] == [(1, 9), (1, 10), (2, 1)]
        assert list(await store.settled(NEXT)) == []

    async def test_what_the_caller_knows_is_left_out(self, store: Store) -> None:
        await store.settle([record(1, 1), record(1, 2), record(2, 1)])
        assert [(r.token, r.sequence) for r in await store.settled(HERE, {(1, 1), (2, 1), (9, 9)})] == [(1, 2)]

    async def test_what_the_caller_knows_is_left_out_also_where_most_is_new(self, store: Store) -> None:
        await store.settle([record(1, number) for number in range(100)])
        assert [r.sequence for r in await store.settled(HERE, {(1, 7)})] == [n for n in range(100) if n != 7]

    async def test_a_record_comes_back_whole(self, store: Store) -> None:
        carry = Carry(key("a"), CarryReason.GUARD, NEXT, 17, 3, 5, 6, "broke")
        await store.settle([record(1, 1, Outcome.CARRIED, carry)])
        (stored,) = await store.settled(HERE)
        assert stored.partition == HERE
        assert stored.carries == (carry,)
        assert stored.outcomes() == [(key("a"), Outcome.CARRIED)]

    async def test_a_record_that_exists_is_kept(self, store: Store) -> None:
        await store.settle([record(1, 1, Outcome.ACKED)])
        await store.settle([record(1, 1, Outcome.DEAD), record(1, 2, Outcome.EXPIRED)])
        outcomes = [r.outcomes()[0][1] for r in await store.settled(HERE)]
        assert outcomes == [Outcome.ACKED, Outcome.EXPIRED]

    async def test_drop_forgets_them(self, store: Store) -> None:
        await store.settle([record(1, 1)])
        await store.drop(HERE)
        assert list(await store.settled(HERE)) == []
