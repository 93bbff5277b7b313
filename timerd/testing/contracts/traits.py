"""Traits: what a store declares, it shows (timerd/model/store_traits.py)."""

from __future__ import annotations

import asyncio

import pytest

from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import control_key
from timerd.ports import Cas, CasResult, CasStatus, Look, Mark, MarkKind, Store
from timerd.testing.contracts.build import (
    END_MS,
    HERE,
    NEXT,
    START_MS,
    digest,
    found_versions,
    key,
    message,
    scan,
    singles_of,
    spread,
)
from timerd.testing.contracts.settle import record

NOT_DECLARED = "the store does not declare this trait"
# So much is on no disk: a store that says so has not looked.
NOT_SEEN_BYTES = 1 << 60
# Far enough ahead to lie elsewhere first.
FAR = Partition(HERE.scope, START_MS + 1_000 * BUCKET_MS, 0)
POSITIONS = [START_MS + 5, START_MS + 9, *(START_MS + n * BUCKET_MS for n in range(400, 420))]


@pytest.mark.asyncio
class TraitsContract:
    """Nothing is asked of a trait that the store does not declare. A store that `is_shared` gives one more fixture,
    `beside`: another object on the same data."""

    @pytest.fixture
    def beside(self, store: Store) -> Store:
        assert not store.traits.is_shared, "a store that is shared gives the fixture `beside`"
        return store

    # -- knows_repeats --------------------------------------------------------------------------------------------

    async def test_a_repeated_message_stores_nothing_and_gets_the_first_reply(self, store: Store) -> None:
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        await store.append([message("a", key("a"), reply=b"first")])
        (again,) = await store.append([message("a", key("a", 9), reply=b"second")])
        assert again.repeated == b"first"
        assert (await scan(store)).keys == [key("a")]

    async def test_the_first_reply_is_told_without_a_write(self, store: Store) -> None:
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        first = message("a", key("a"), reply=b"first")
        assert list(await store.replies([first.prefix])) == [None]
        await store.append([first])
        assert list(await store.replies([b"other message", first.prefix])) == [None, b"first"]

    async def test_of_two_equal_messages_at_once_one_is_stored(self, store: Store) -> None:
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        both = await store.append([message("a", key("a"), reply=b"1"), message("a", key("a"), reply=b"2")])
        assert [appended.repeated for appended in both] == [None, b"1"]
        (later,) = await store.append([message("a", key("a"), reply=b"3")])
        assert later.repeated == b"1"
        rest = await asyncio.gather(*(store.append([message("b", key("b"))]) for _ in range(5)))
        assert sorted(appended.repeated is None for (appended,) in rest) == [False] * 4 + [True]
        assert (await scan(store)).keys == sorted([key("a"), key("b")])

    async def test_messages_of_one_row_each_are_stored_as_each_by_itself(self, store: Store) -> None:
        """Two of them are known."""
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        places = [HERE, NEXT, HERE, FAR, HERE, NEXT]
        singles = singles_of([f"m{n}" for n in range(len(places))], places)
        before = await store.append([singles[2], singles[5]])
        assert [one.repeated for one in before] == [None, None]
        said = await store.append(singles)
        assert [one.repeated for one in said] == [None, None, singles[2].reply, None, None, singles[5].reply]
        assert [[*one.controls] for one in said] == [[place] for place in places]
        found = {place: (await scan(store, place)).keys for place in (HERE, NEXT, FAR)}
        wanted = {
            place: [rows.keys()[0] for one in singles for at, rows in one.groups if at == place] for place in found
        }
        assert found == {place: sorted(keys) for place, keys in wanted.items()}
        again = await store.append(singles)
        assert [one.repeated for one in again] == [one.reply for one in singles]
        assert list(await store.replies(singles.prefixes)) == [one.reply for one in singles]

    async def test_messages_of_one_row_each_are_told_of_their_partitions(self, store: Store) -> None:
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        await store.cas([Cas(control_key(NEXT), None, b"held")])
        said = await store.append(singles_of(["a", "b", "c"], [HERE, NEXT, HERE]))
        assert [list(one.controls.values()) for one in said] == [[None], [b"held"], [None]]
        if store.traits.has_cursors:
            assert [[*one.sources] for one in said] == [[HERE], [NEXT], [HERE]]
            assert all(source for one in said for source in one.sources.values())
        await store.finish_bucket(NEXT.scope, END_MS + BUCKET_MS, finished=False)
        beyond = Partition(NEXT.scope, END_MS + BUCKET_MS, 0)
        said = await store.append(singles_of(["d", "e"], [beyond, HERE]))
        assert [one.finishing for one in said] == [{beyond}, frozenset()]

    async def test_a_repeat_of_a_spread_stores_nothing(self, store: Store) -> None:
        if not store.traits.knows_repeats:
            pytest.skip(NOT_DECLARED)
        await store.append([spread("m", POSITIONS)])
        both = await store.append([spread("m", POSITIONS), spread("m", POSITIONS)])
        assert [one.repeated for one in both] == [b"stored"] * 2
        buckets = [Partition(e.scope, e.bucket_ms, 0) for e in await store.catalogue(None, 0, 1 << 60)]
        assert [k.position_ms for p in buckets for k in (await scan(store, p)).keys] == POSITIONS

    # -- has_cursors ----------------------------------------------------------------------------------------------

    async def test_a_scan_by_cursor_brings_what_is_new_and_nothing_else(self, store: Store) -> None:
        if not store.traits.has_cursors:
            pytest.skip(NOT_DECLARED)
        await store.append([message("a", key("a", 500))])
        await store.mark([Mark(HERE, key("a", 500), MarkKind.CANCELLED, b"")])
        first = await scan(store)
        await store.append([message("b", key("b", 2))])
        await store.mark([Mark(HERE, key("c", 900), MarkKind.MOVED, b"1")])
        second = await scan(store, cursor=first.cursor)
        assert (second.keys, [mark.key for mark in second.marks]) == ([key("b", 2)], [key("c", 900)])
        third = await scan(store, cursor=second.cursor)
        assert (third.keys, third.marks) == ([], [])

    async def test_what_is_written_bears_the_name_that_its_append_was_given(self, store: Store) -> None:
        if not store.traits.has_cursors:
            pytest.skip(NOT_DECLARED)
        (first,) = await store.append([message("a", key("a"))])
        await scan(store)
        (second,) = await store.append([message("b", key("b"))])
        names = {k: group.source for group in (await scan(store)).groups for k in list(group.keys())}
        assert [first.sources, second.sources] == [{HERE: names[key("a")]}, {HERE: names[key("b")]}]
        assert 0 < names[key("a")] < names[key("b")]

    async def test_without_cursors_nothing_bears_a_name(self, store: Store) -> None:
        if store.traits.has_cursors:
            pytest.skip("the store has cursors")
        (appended,) = await store.append([message("a", key("a"))])
        read = await scan(store)
        assert (appended.sources, read.cursor, [group.source for group in read.groups]) == ({}, 0, [0])

    # -- pages_in_order -------------------------------------------------------------------------------------------

    async def test_pages_come_in_order_and_say_how_far_they_go(self, store: Store) -> None:
        """A holder fires up to there before it has read the rest."""
        if not store.traits.pages_in_order:
            pytest.skip(NOT_DECLARED)
        for n in range(6):
            await store.append([message(f"m{n}", *(key(f"k{n} {i}", (n * 7 + i * 13) % 40) for i in range(10)))])
        await store.mark([Mark(HERE, key(f"x{n}", n * 29 % 40), MarkKind.PURGED, b"") for n in range(10)])
        through_ms, cursor, done, number = 0, 0, False, 0
        while not done:
            page = await store.scan(HERE, START_MS, END_MS, cursor, 1)
            rows = [k.position_ms for group in page.groups for k in group.keys()]
            places = [*rows, *(mark.key.position_ms for mark in page.marks)]
            assert rows == sorted(rows)
            assert not places or min(places) >= through_ms
            assert page.done or page.through_ms >= max(places, default=0)
            through_ms, cursor, done, number = page.through_ms, page.cursor, page.done, number + len(rows)
        assert number == 60

    # -- counts_marks ---------------------------------------------------------------------------------------------

    async def test_marks_that_are_the_first_of_their_kind_are_counted(self, store: Store) -> None:
        if not store.traits.counts_marks:
            pytest.skip(NOT_DECLARED)
        marks = [Mark(HERE, key(f"k{n}"), MarkKind.CANCELLED, b"first") for n in range(300)]
        again = [*marks[200:], Mark(HERE, key("k0"), MarkKind.MOVED, b"1"), Mark(HERE, key("other"), *marks[0][2:])]
        assert [await store.mark(part) for part in (marks[:250], again, marks)] == [250, 52, 0]
        other = [Mark(HERE, key("k0", version=1), MarkKind.CANCELLED, b"first"), *marks[:3]]
        assert await store.mark([*other, *other]) == 1

    async def test_marks_are_counted_in_one_step_with_a_look(self, store: Store) -> None:
        if not store.traits.counts_marks:
            pytest.skip(NOT_DECLARED)
        marks = [Mark(HERE, key(f"k{n}"), MarkKind.CANCELLED, b"1") for n in range(12)]
        looks = [(marks[:1], [HERE]), (marks[3:4], []), (marks, [HERE])]
        found = [await store.mark_and_look(part, Look((), [digest("k0")], where)) for part, where in looks]
        assert [fresh for fresh, _ in found] == [1, 1, 10]

    async def test_a_store_counts_no_mark_that_is_not_the_first(self, store: Store) -> None:
        """Whether it counts or not: a cancel takes those that are counted for its own."""
        mark = Mark(HERE, key("a"), MarkKind.CANCELLED, b"first")
        assert await store.mark([mark]) == int(store.traits.counts_marks)
        assert await store.mark([mark._replace(value=b"second")]) == 0

    # -- is_shared ------------------------------------------------------------------------------------------------

    async def test_what_one_has_written_the_other_reads(self, store: Store, beside: Store) -> None:
        if not store.traits.is_shared:
            pytest.skip(NOT_DECLARED)
        await store.append([message("a", key("a"))])
        await beside.append([message("b", key("b"))])
        await beside.settle([record(1, 1)])
        for each in (store, beside):
            assert await found_versions(each, [key("a"), key("b")]) == [[0], [0]]
            assert [r.sequence for r in await each.settled(HERE)] == [1]

    async def test_of_two_that_expect_the_same_one_wins(self, store: Store, beside: Store) -> None:
        if not store.traits.is_shared:
            pytest.skip(NOT_DECLARED)
        change = control_key(HERE)
        assert list(await store.cas([Cas(change, None, b"1")])) == [CasResult(CasStatus.APPLIED)]
        assert list(await beside.cas([Cas(change, None, b"2")])) == [CasResult(CasStatus.REFUSED, b"1")]
        (appended,) = await beside.append([message("a", key("a"))])
        assert appended.controls == {HERE: b"1"}

    # -- sees_disk ------------------------------------------------------------------------------------------------

    async def test_the_facts_tell_what_is_used_and_what_is_free(self, store: Store) -> None:
        if not store.traits.sees_disk:
            pytest.skip(NOT_DECLARED)
        await store.append([message("a", key("a"))])
        facts = await store.facts()
        assert facts.used_bytes > 0
        assert 0 < facts.free_bytes < NOT_SEEN_BYTES
