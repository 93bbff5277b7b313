"""Which rows a sweep asks for: all that is new of a store with cursors; without them a narrow stretch, keys first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.property.rereading import RereadingStore
from tests.property.world import QUEUES, World
from timerd.core.partition.effects import Effects, ReadPage
from timerd.core.partition.known_keys import LARGE_GROUP, MOST_FRESH, KnownKeys
from timerd.core.partition.sweep import AHEAD_MS, WIDE_MS, Sweep
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.rows import RowGroup
from timerd.model.storage import Found, Page
from timerd.model.store_traits import StoreTraits
from timerd.services.holding.paging import FEW_ROWS, read_page
from timerd.testing.contracts.build import HERE, START_MS, batch, tasks

END_MS = START_MS + BUCKET_MS
NOW_MS = START_MS + 60_000
LAST = Page([], [], 0, done=True)
MIDDLE = Page([], [], -7, done=False)


def asked(effects: Effects) -> ReadPage:
    [read] = effects
    assert isinstance(read, ReadPage)
    return read


def loaded(closing_ms: int = START_MS) -> Sweep:
    """Of a store without cursors, whose rows have all been read once."""
    sweep = Sweep(HERE, START_MS, StoreTraits(pages_in_order=True))
    assert asked(sweep.start(START_MS, closing_ms, 0, NOW_MS)) == ReadPage(HERE, START_MS, END_MS, 0)
    assert asked(sweep.turned(MIDDLE)) == ReadPage(HERE, START_MS, END_MS, -7)
    assert sweep.turned(LAST) == []
    return sweep


class TestSweep:
    def test_after_the_load_only_what_is_not_sure_and_due_in_a_moment_is_read_keys_first(self) -> None:
        sweep = loaded()
        read = asked(sweep.start(START_MS, NOW_MS, 0, NOW_MS))
        assert read == ReadPage(HERE, START_MS, NOW_MS + AHEAD_MS, 0, keys_first=True)
        assert asked(sweep.turned(MIDDLE)) == ReadPage(HERE, START_MS, NOW_MS + AHEAD_MS, -7, keys_first=True)
        assert sweep.turned(LAST) == []
        later_ms = NOW_MS + 1_000
        assert asked(sweep.start(START_MS, NOW_MS, 0, later_ms)).lo_ms == sweep.scanned_ms == NOW_MS

    def test_the_end_of_the_bucket_is_not_passed_and_nothing_is_read_of_nothing(self) -> None:
        sweep = loaded()
        assert asked(sweep.start(START_MS, END_MS, 0, END_MS)).hi_ms == END_MS
        sweep.turned(LAST)
        assert sweep.scanned_ms == END_MS
        assert sweep.start(START_MS, END_MS, 0, END_MS + 5_000) == []
        assert not sweep.is_reading

    def test_pages_that_do_not_say_how_far_they_go_lead_nowhere_before_the_last_one(self) -> None:
        """Of a store with cursors, whose pages are in the order of writing; also of a bucket that has not begun."""
        sweep = Sweep(HERE, START_MS, StoreTraits(has_cursors=True))
        sweep.start(START_MS, START_MS, 0, START_MS - 60_000)
        sweep.turned(Page([], [], 7, done=False))
        assert not sweep.is_ahead(START_MS - 60_000)
        sweep.turned(Page([], [], 9, done=True))
        assert sweep.is_ahead(END_MS)

    def test_with_cursors_everything_since_the_cursor_is_read(self) -> None:
        sweep = Sweep(HERE, START_MS, StoreTraits(has_cursors=True))
        sweep.start(START_MS, START_MS, 0, NOW_MS)
        sweep.turned(Page([], [], 5, done=True))
        assert asked(sweep.start(START_MS, NOW_MS, 5, NOW_MS)) == ReadPage(HERE, START_MS, END_MS, 5)
        assert not sweep.is_wide(START_MS, END_MS)

    def test_closing_follows_where_much_would_be_read_again(self) -> None:
        assert not loaded().is_wide(NOW_MS, NOW_MS + WIDE_MS - 1)
        assert loaded().is_wide(NOW_MS, NOW_MS + WIDE_MS)


def rows_at(count: int, prefix: str = "a") -> RowGroup:
    return tasks(prefix, [START_MS + n for n in range(count)])


class TestKnownKeys:
    def test_what_was_added_is_known_and_nothing_else(self) -> None:
        for count in (3, LARGE_GROUP, MOST_FRESH + 5):
            known = KnownKeys()
            rows = rows_at(count)
            for begin in range(0, count, LARGE_GROUP - 1):
                known.add(rows.select(slice(begin, begin + LARGE_GROUP - 1)))
            known.add(rows_at(LARGE_GROUP, "b"))
            assert len(known.new(rows)) == 0
            assert len(known.among(rows)) == count
            assert len(known.new(rows_at(count, "c"))) == count

    def test_another_version_is_another_row(self) -> None:
        known, rows = KnownKeys(), rows_at(2)
        known.add(rows)
        other = rows.select(slice(None))
        other.columns = rows.columns.copy()
        other.columns["version"] = [0, 1]
        assert known.new(other).keys() == other.keys()[1:]


class CountingStore(RereadingStore):
    """Counts the bodies it is asked for."""

    bodies = 0

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        page = await super().scan(partition, lo_ms, hi_ms, cursor, limit_bytes, keys_only=keys_only)
        self.bodies += 0 if keys_only else sum(map(len, page.groups))
        return page

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        self.bodies += len(keys)
        return await super().find(partition, keys)


class TestReadPage:
    def read(self, stored: int, known: int) -> tuple[int, int, set[bytes]]:
        """(rows that came, bodies that the store was asked for, the bodies)."""
        store, keys = CountingStore(), KnownKeys()
        asyncio.run(store.append([batch("a", [START_MS + n for n in range(stored)])]))
        keys.add(rows_at(known))
        read = ReadPage(HERE, START_MS, END_MS, 0, keys_first=True)
        page = asyncio.run(read_page(store, read, keys.new))
        new = [keys.new(group) for group in page.groups]
        assert page.done
        return sum(map(len, new)), store.bodies, {group.payload(n) for group in new for n in range(len(group))}

    def test_bodies_are_read_of_what_is_lacking(self) -> None:
        assert self.read(1_000, 1_000) == (0, 0, set())
        assert self.read(1_000, 990) == (10, 10, {b"body"})

    def test_of_many_the_whole_page_is_read(self) -> None:
        assert self.read(1_000, 999 - FEW_ROWS) == (FEW_ROWS + 1, 1_000, {b"body"})


def test_a_row_whose_hint_was_lost_is_met_although_closing_has_passed_it() -> None:
    world = World(store=RereadingStore())
    world.insert([0], 0)
    world.settle_down()
    world.tick()
    world.settle_down()
    world.take(QUEUES[0], 1)
    assert world.in_hand()
    world.loses_hints = True
    world.insert([10_000], 0)
    world.settle_down()
    world.advance(20_000)
    world.settle_down()
    world.take(QUEUES[0], 1)
    assert len(world.in_hand()) == 2
    world.drain()
