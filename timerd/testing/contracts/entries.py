"""Entries: notes that are written once, found by name, listed by place, and removed for good."""

from __future__ import annotations

import pytest

from timerd.ports import Entry, EntryKey, Store

HERE, THERE = b"here\0a", b"here\0b"


def entry(number: int, place: bytes = HERE) -> Entry:
    return Entry(EntryKey(place, b"%03d\0\xff" % number), b"value %d" % number)


@pytest.mark.asyncio
class EntriesContract:
    async def test_an_entry_is_found_as_it_was_written(self, store: Store) -> None:
        empty = Entry(EntryKey(HERE, b"empty"), b"")
        await store.write_entries([entry(1), entry(2), entry(1, THERE), empty])
        keys = [entry(2).key, entry(3).key, entry(1, THERE).key, empty.key]
        assert list(await store.find_entries(keys)) == [b"value 2", None, b"value 1", b""]

    async def test_an_entry_that_is_written_again_is_one(self, store: Store) -> None:
        await store.write_entries([entry(1)])
        await store.write_entries([entry(1)])
        assert list(await store.list_entries(HERE, b"", 10)) == [entry(1)]

    async def test_entries_of_a_place_are_listed_in_order_page_by_page(self, store: Store) -> None:
        await store.write_entries([entry(number) for number in (3, 1, 2, 4)])
        await store.write_entries([entry(0, THERE)])
        first = await store.list_entries(HERE, b"", 3)
        assert list(first) == [entry(1), entry(2), entry(3)]
        assert list(await store.list_entries(HERE, first[-1].key.name, 3)) == [entry(4)]
        assert list(await store.list_entries(b"nowhere", b"", 3)) == []

    async def test_an_entry_that_is_removed_is_gone(self, store: Store) -> None:
        await store.write_entries([entry(1), entry(2)])
        await store.remove_entries([entry(1).key, entry(7).key])
        assert list(await store.find_entries([entry(1).key, entry(2).key])) == [None, b"value 2"]
        assert list(await store.list_entries(HERE, b"", 10)) == [entry(2)]
