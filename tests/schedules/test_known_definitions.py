"""A definition is read once, however many ticks go by it."""

from __future__ import annotations

from timerd.core.protocol import FindEntries, Request
from timerd.model.schedules import definition_key
from timerd.model.storage import EntryKey
from timerd.services.schedules import known_definitions
from timerd.services.schedules.known_definitions import KnownDefinitions


class Counting:
    """Implements Performs over some entries, and notes what it is asked for."""

    def __init__(self, entries: dict[EntryKey, bytes]) -> None:
        self.entries = entries
        self.asked: list[EntryKey] = []

    async def perform(self, request: Request) -> object:
        assert isinstance(request, FindEntries)
        self.asked += request.keys
        return [self.entries.get(key) for key in request.keys]


def key(number: int) -> EntryKey:
    return definition_key("default", "s", "uid", number, "try")


async def test_a_definition_is_read_once() -> None:
    store = Counting({key(1): b"one", key(2): b"two"})
    known = KnownDefinitions(store)
    for _ in range(3):
        assert await known.perform(FindEntries([key(1)])) == [b"one"]
    assert await known.perform(FindEntries([key(2)])) == [b"two"]
    assert store.asked == [key(1), key(2)]


async def test_one_that_is_not_there_is_asked_for_again() -> None:
    store = Counting({})
    known = KnownDefinitions(store)
    assert await known.perform(FindEntries([key(1)])) == [None]
    store.entries[key(1)] = b"one"
    assert await known.perform(FindEntries([key(1)])) == [b"one"]


async def test_other_entries_and_large_definitions_are_read_each_time() -> None:
    other = EntryKey(b"members", b"1")
    store = Counting({other: b"a", key(1): bytes(known_definitions.MOST_BYTES + 1)})
    known = KnownDefinitions(store)
    for _ in range(2):
        await known.perform(FindEntries([other]))
        await known.perform(FindEntries([key(1)]))
    assert store.asked == [other, key(1)] * 2


async def test_those_that_were_asked_for_longest_ago_are_forgotten() -> None:
    most = known_definitions.MOST
    store = Counting({key(n): b"x" for n in range(most + 1)})
    known = KnownDefinitions(store)
    for n in [*range(most), 0, most, 0, 1]:
        await known.perform(FindEntries([key(n)]))
    assert store.asked == [key(n) for n in [*range(most + 1), 1]]
