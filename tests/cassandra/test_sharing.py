"""Inserts of a partition share writes and the read that follows; all who wait hear of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from timerd.adapters.cassandra.codec import Written as Values
from timerd.adapters.cassandra.inserts import ControlFacts, Inserts
from timerd.adapters.cassandra.shared import MOST_KEYS, SharedReads
from timerd.adapters.cassandra.waiting import every, one_after_another, some_at_a_time
from timerd.adapters.cassandra.write_numbers import WriteNumbers
from timerd.adapters.cassandra.write_times import WriteTimes, wall_ms
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.testing.contracts.build import HERE, NEXT, key, row


class Table:
    """Stands for the table of tasks and for what is read after it was written: a diary of both."""

    def __init__(self) -> None:
        self.diary: list[str] = []
        self.write_fails: Exception | None = None
        self.read_fails: Exception | None = None

    async def write(self, rows: Sequence[Values]) -> None:
        self.diary.append(f"begin {len(rows)}")
        await asyncio.sleep(0)
        if self.write_fails:
            raise self.write_fails
        self.diary.append(f"written {len(rows)}")

    async def facts(self, partition: Partition) -> ControlFacts:
        self.diary.append("read")
        await asyncio.sleep(0)
        if self.read_fails:
            raise self.read_fails
        return ControlFacts(b"control", False)


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def inserts(table: Table) -> Inserts:
    return Inserts(table, table.facts, WriteNumbers(WriteTimes(wall_ms)))  # type: ignore[arg-type]


class TestInserts:
    async def test_those_who_come_together_share_one_write_and_one_read(self, table: Table, inserts: Inserts) -> None:
        facts = await every(inserts.add(HERE, row(key(f"k{n}"))) for n in range(50))
        assert set(facts) == {ControlFacts(b"control", False)}
        assert table.diary == ["begin 50", "written 50", "read"]

    async def test_who_comes_during_two_rounds_goes_with_the_next(self, table: Table, inserts: Inserts) -> None:
        waiting = []
        for n in range(8):
            waiting.append(asyncio.ensure_future(inserts.add(HERE, row(key(f"k{n}")))))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert sum(int(line.split()[1]) for line in table.diary if line.startswith("written")) == 8
        assert table.diary.count("read") < 8

    async def test_partitions_do_not_wait_for_each_other(self, table: Table, inserts: Inserts) -> None:
        await every(inserts.add(partition, row(key("k"))) for partition in (HERE, NEXT))
        assert sorted(table.diary) == ["begin 1"] * 2 + ["read"] * 2 + ["written 1"] * 2

    async def test_all_hear_of_a_failure(self, table: Table, inserts: Inserts) -> None:
        table.write_fails = StoreUnavailable("down", "STORE_UNAVAILABLE")
        heard = await asyncio.gather(*(inserts.add(HERE, row(key(f"k{n}"))) for n in range(3)), return_exceptions=True)
        assert heard == [table.write_fails] * 3
        table.write_fails = None
        assert await inserts.add(HERE, row(key("after"))) == ControlFacts(b"control", False)

    async def test_a_read_that_fails_after_the_write_leaves_it_unknown(self, table: Table, inserts: Inserts) -> None:
        table.read_fails = StoreUnavailable("down", "STORE_UNAVAILABLE")
        with pytest.raises(StoreUnknown, match="were written"):
            await inserts.add(HERE, row(key("k")))

    async def test_who_gives_up_takes_nothing_from_the_others(self, table: Table, inserts: Inserts) -> None:
        first = asyncio.ensure_future(inserts.add(HERE, row(key("a"))))
        second = asyncio.ensure_future(inserts.add(HERE, row(key("b"))))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == ControlFacts(b"control", False)
        await inserts.settle()
        assert "written 2" in table.diary


class TestSharedReads:
    async def test_one_request_serves_all_who_ask_in_a_turn(self) -> None:
        asked: list[list[int]] = []

        async def read(keys: Sequence[int]) -> Mapping[int, str]:
            asked.append(list(keys))
            return {key: str(key) for key in keys if key}

        shared = SharedReads(read)
        assert await every(shared.get(key) for key in (1, 2, 1, 0)) == ["1", "2", "1", None]
        assert asked == [[1, 2, 0]]
        await every(shared.get(key) for key in range(MOST_KEYS + 1))
        assert [len(keys) for keys in asked[1:]] == [MOST_KEYS, 1]

    async def test_who_asks_while_a_read_is_under_way_waits_for_the_next(self) -> None:
        value, has_read, may_answer = 1, asyncio.Event(), asyncio.Event()

        async def read(keys: Sequence[str]) -> Mapping[str, int]:
            found = dict.fromkeys(keys, value)
            has_read.set()
            await may_answer.wait()
            return found

        shared = SharedReads(read)
        early = asyncio.ensure_future(shared.get("k"))
        await has_read.wait()
        value = 2
        later = asyncio.ensure_future(shared.get("k"))
        await asyncio.sleep(0)
        may_answer.set()
        assert (await early, await later) == (1, 2)

    async def test_a_failure_reaches_all(self) -> None:
        async def read(_: Sequence[int]) -> Mapping[int, str]:
            raise StoreUnavailable("down", "STORE_UNAVAILABLE")

        shared = SharedReads(read)
        heard = await asyncio.gather(shared.get(1), shared.get(1), shared.get(2), return_exceptions=True)
        assert [type(each) for each in heard] == [StoreUnavailable] * 3


class TestWaiting:
    async def test_some_at_a_time_keeps_the_order_and_the_limit(self) -> None:
        under_way: set[int] = set()
        most = 0

        async def write(n: int) -> int:
            nonlocal most
            under_way.add(n)
            most = max(most, len(under_way))
            await asyncio.sleep(0.001 * (n % 3))
            under_way.discard(n)
            return n

        assert await some_at_a_time(write, range(20), 4) == list(range(20))
        assert most == 4
        assert await some_at_a_time(write, [], 4) == []

    async def test_after_a_failure_nothing_more_is_begun(self) -> None:
        begun: list[int] = []

        async def write(n: int) -> None:
            begun.append(n)
            await asyncio.sleep(0)
            if n:
                raise StoreUnavailable("down", "STORE_UNAVAILABLE")

        with pytest.raises(StoreUnavailable):
            await some_at_a_time(write, range(1, 100), 4)
        assert len(begun) <= 8
        with pytest.raises(StoreUnknown):
            await some_at_a_time(write, range(100), 4)

    async def test_all_are_brought_to_their_end_before_a_failure_is_told(self) -> None:
        ended: list[int] = []

        async def write(n: int) -> int:
            await asyncio.sleep(0)
            if n == 0:
                raise StoreUnavailable("down", "STORE_UNAVAILABLE")
            await asyncio.sleep(0.001)
            ended.append(n)
            return n

        for way in (every, one_after_another):
            ended.clear()
            with pytest.raises(StoreUnknown):
                await way(write(n) for n in range(3))
            assert sorted(ended) == [1, 2]
            assert await way(write(n) for n in (1, 2)) == [1, 2]
