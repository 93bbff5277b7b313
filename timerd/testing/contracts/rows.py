"""Rows: what was acknowledged is read, whole, by everyone, from then on (protocol section 4)."""

from __future__ import annotations

import asyncio

import pytest

from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, Partition
from timerd.model.registers import control_key, move_key
from timerd.model.rows import concat, single_row
from timerd.model.settle import Outcome
from timerd.model.task import Extra, RetryPolicy, Template
from timerd.ports import Append, BucketEntry, Cas, Look, Looked, Mark, MarkKind, Store
from timerd.testing.contracts.build import (
    BACKLOG,
    END_MS,
    HERE,
    NEXT,
    START_MS,
    batch,
    carried,
    digest,
    found_versions,
    key,
    message,
    row,
    scan,
)
from timerd.testing.contracts.settle import record


@pytest.mark.asyncio
class RowsContract:
    """Append, scan, find, mark, drop, catalogue."""

    async def test_an_acknowledged_row_is_scanned_and_found(self, store: Store) -> None:
        await store.append([message("a", key("a", 5))])
        read = await scan(store)
        assert read.keys == [key("a", 5)]
        assert read.payloads == {key("a", 5): b"body"}
        (found,) = await store.find(HERE, [(START_MS + 5, digest("a"))])
        assert found.rows.keys() == [key("a", 5)]
        assert found.rows.payload(0) == b"body"

    async def test_every_field_of_a_row_comes_back(self, store: Store) -> None:
        template = Template("d", "q", 7, (("k", "ü"),), "text/plain", RetryPolicy(3), 9, 8, "00-trace")
        extra = Extra("my key", START_MS, 0, "broke", START_MS + 9, 4)
        rows = [
            single_row(key("a", 3, 65_537), START_MS + 1, template, b"1", extra, 5),
            row(key("b", 2), b""),
            single_row(key("c", 1), START_MS + 2, template, b"x" * 5_000, Extra("c"), 0),
        ]
        await store.append([Append(((HERE, concat(rows)),))])
        by_key = {k: (g, n) for g in (await scan(store)).groups for n, k in enumerate(g.keys())}
        group, n = by_key[key("a", 3, 65_537)]
        assert (group.template_of(n), group.extra_of(n), group.payload(n)) == (template, extra, b"1")
        assert (int(group.columns["fire_at_ms"][n]), int(group.columns["flags"][n])) == (START_MS + 1, 5)
        group, n = by_key[key("c", 1)]
        assert (group.template_of(n), group.extra_of(n), group.payload(n)) == (template, Extra("c"), b"x" * 5_000)
        group, n = by_key[key("b", 2)]
        assert (group.extra_of(n), group.payload(n)) == (Extra(), b"")

    async def test_a_group_of_a_page_is_sorted_by_position(self, store: Store) -> None:
        await store.append([message("a", *(key(f"a{n}", n * 37 % 100) for n in range(50)))])
        groups = (await scan(store)).groups
        assert sum(map(len, groups)) == 50
        for group in groups:
            positions = group.columns["position_ms"].tolist()
            assert positions == sorted(positions)

    async def test_a_scan_brings_the_half_open_range_only(self, store: Store) -> None:
        await store.append([message("a", *(key(f"a{n}", n) for n in range(10)))])
        read = await scan(store, lo_ms=START_MS + 3, hi_ms=START_MS + 6)
        assert [k.position_ms - START_MS for k in read.keys] == [3, 4, 5]

    async def test_a_scan_by_cursor_sees_late_rows_anywhere_in_the_range(self, store: Store) -> None:
        await store.append([message("a", key("a", 500))])
        first = await scan(store)
        await store.append([message("b", key("b", 2)), message("c", key("c", 900))])
        second = await scan(store, cursor=first.cursor)
        assert {key("b", 2), key("c", 900)} <= set(second.keys)

    async def test_a_small_page_loses_and_doubles_nothing(self, store: Store) -> None:
        keys = [key(f"a{n}", n) for n in range(30)]
        for n in range(0, 30, 3):
            await store.append([message(f"m{n}", *keys[n : n + 3])])
        read = await scan(store, limit_bytes=1)
        assert read.keys == sorted(keys)

    async def test_a_scan_of_keys_leaves_the_payloads_out(self, store: Store) -> None:
        await store.append([message("a", key("a", 5))])
        read = await scan(store, keys_only=True)
        assert read.keys == [key("a", 5)]
        assert all(len(group.payloads) == 0 for group in read.groups)

    async def test_partitions_do_not_mix(self, store: Store) -> None:
        other = Partition(HERE.scope, HERE.bucket_ms, 1)
        later = RowKey(END_MS + 1, digest("n"), 0)
        await store.append([message("a", key("a")), message("b", key("b"), partition=BACKLOG)])
        await store.append([message("c", key("c"), partition=other), message("n", later, partition=NEXT)])
        for partition, only in ((HERE, key("a")), (BACKLOG, key("b")), (other, key("c")), (NEXT, later)):
            assert (await scan(store, partition)).keys == [only]
        assert await found_versions(store, [key("a")], BACKLOG) == [[]]

    async def test_one_message_may_reach_many_partitions(self, store: Store) -> None:
        positions = [START_MS + n * 70_000 for n in range(40)]
        (appended,) = await store.append([batch("m", positions)])
        assert len(appended.controls) == len({p // BUCKET_MS for p in positions})
        seen = [k.position_ms for p in appended.controls for k in (await scan(store, p)).keys]
        assert sorted(seen) == positions

    async def test_control_facts_are_those_after_the_rows(self, store: Store) -> None:
        (before,) = await store.append([message("a", key("a"))])
        await store.cas([Cas(control_key(HERE), None, b"held")])
        (after,) = await store.append([message("b", key("b"))])
        assert before.controls == {HERE: None}
        assert after.controls == {HERE: b"held"}

    async def test_a_close_that_misses_a_row_is_seen_by_its_writer(self, store: Store) -> None:
        """Closing is set, then the scan: a row that the scan did not see must have been told of the new closing."""

        async def close(n: int, seen: bytes | None) -> set[RowKey]:
            await store.cas([Cas(control_key(HERE), seen, b"%d" % n)])
            return set((await scan(store)).keys)

        value: bytes | None = None
        for n in range(8):
            wanted = key(f"k{n}", n)
            appended, keys = await asyncio.gather(store.append([message(f"m{n}", wanted)]), close(n, value))
            value = b"%d" % n
            assert wanted in keys or appended[0].controls[HERE] == value

    async def test_finishing_is_told_where_there_is_no_control(self, store: Store) -> None:
        await store.finish_bucket(HERE.scope, START_MS, finished=False)
        (first,) = await store.append([message("a", key("a"))])
        await store.cas([Cas(control_key(HERE), None, b"held")])
        (second,) = await store.append([message("b", key("b"))])
        later = message("c", RowKey(END_MS, digest("c"), 0), partition=NEXT)
        (elsewhere,) = await store.append([later])
        assert first.finishing == {HERE}
        assert second.finishing == elsewhere.finishing == frozenset()

    async def test_a_row_that_exists_is_kept_as_it_is(self, store: Store) -> None:
        await store.append([carried(key("a"), payload=b"first")])
        twice = [carried(key("a"), key("b", 1), payload=b"second"), carried(key("b", 1), payload=b"third")]
        await store.append(twice)
        await store.append([carried(key("a"), key("b", 1), payload=b"fourth")])
        read = await scan(store)
        assert read.keys == [key("a"), key("b", 1)]
        assert read.payloads == {key("a"): b"first", key("b", 1): b"second"}

    async def test_another_version_is_another_row(self, store: Store) -> None:
        await store.append([carried(key("a", version=1)), carried(key("a", version=2), key("a", version=65_536))])
        assert await found_versions(store, [key("a")]) == [[1, 2, 65_536]]

    async def test_find_answers_for_each_key_in_order(self, store: Store) -> None:
        names = [f"k{n}" for n in range(60)]
        for at in range(0, 60, 7):
            await store.append([message(f"m{at}", *(key(name, at) for name in names[at : at + 7]))])
        wanted = [key(name, n - n % 7) for n, name in enumerate(names)]
        mixed = [*reversed(wanted), key("unknown"), wanted[3], key("k3", 1)]
        found = await store.find(HERE, [(k.position_ms, k.digest) for k in mixed])
        answers = [f.rows.keys() for f in found]
        assert answers == [*([k] for k in reversed(wanted)), [], [wanted[3]], []]
        assert all(f.rows.payload(0) == b"body" for f in found if len(f.rows))

    async def test_find_sees_what_was_written_since_the_last_look(self, store: Store) -> None:
        for n in range(5):
            assert await found_versions(store, [key("a")]) == [list(range(n))]
            await store.append([carried(key("a", version=n))])

    async def test_the_first_mark_of_a_kind_wins_and_others_stand_beside_it(self, store: Store) -> None:
        await store.append([message("a", key("a"))])
        await store.mark([Mark(HERE, key("a"), MarkKind.CANCELLED, b"first")])
        await store.mark([Mark(HERE, key("a"), MarkKind.CANCELLED, b"second")])
        await store.mark([Mark(HERE, key("a"), MarkKind.MOVED, b"3")])
        expected = [(MarkKind.CANCELLED, b"first"), (MarkKind.MOVED, b"3")]
        (found,) = await store.find(HERE, [(START_MS, digest("a"))])
        assert sorted((m.kind, m.value) for m in found.marks) == expected
        read = await scan(store)
        assert sorted((m.kind, m.value) for m in read.marks) == expected

    async def test_bare_is_one_row_of_the_first_version_without_a_mark(self, store: Store) -> None:
        names = ("bare", "twice", "later", "cancelled", "forwarded", *(f"k{n}" for n in range(300)))
        await store.append([message("m", *(key(name) for name in names if name != "later"))])
        await store.append([carried(key("twice", version=1), key("later", version=1))])
        await store.append([message("n", RowKey(END_MS + 1, digest("next"), 0), partition=NEXT)])
        marks = [("cancelled", 0, MarkKind.CANCELLED), ("forwarded", 3, MarkKind.FORWARD), ("k299", 0, MarkKind.ACKED)]
        await store.mark([Mark(HERE, key(name, version=version), kind, b"1") for name, version, kind in marks])
        asked = [*((START_MS, digest(name)) for name in (*names, "unknown", "bare")), (START_MS + 1, digest("bare"))]
        here, there = (await store.look(Look([(HERE, asked), (NEXT, [(END_MS + 1, digest("next"))])], []))).bare
        of_names = [True, False, False, False, False, *[True] * 299, False]
        assert list(here) == [*of_names, False, True, False]
        assert list(there) == [True]

    async def test_one_is_looked_at_as_each_of_many(self, store: Store) -> None:
        """Whatever is known of it, and of its partition."""
        names = ("bare", "twice", "later", "cancelled", "forwarded", "moved", *(f"k{n}" for n in range(20)))
        await store.append([message("m", *(key(name) for name in names if name != "later"))])
        await store.append([carried(key("twice", version=1), key("later", version=1))])
        await store.mark([Mark(HERE, key(name), MarkKind.CANCELLED, b"1") for name in ("cancelled", "forwarded")])
        await store.cas([Cas(move_key(digest("moved")), None, b"1")])
        for settled in (False, True):
            if settled:
                await store.settle([record(1, 1, Outcome.ACKED)])
            for name in (*names, "unknown"):
                place, task = (HERE, [(START_MS, digest(name))]), digest(name)
                one = await store.look(Look([place], [task], [HERE]))
                many = await store.look(Look([place, place], [task, digest("other")], [HERE, NEXT]))
                assert [list(map(list, one.bare)) * 2, one.moved] == [list(map(list, many.bare)), many.moved]
                assert one.settled == many.settled == ({HERE} if settled else set())

    async def test_a_look_after_marks_sees_what_was_written_before(self, store: Store) -> None:
        names = [f"k{n}" for n in range(12)]
        await store.append([message("m", *(key(name) for name in names))])
        await store.cas([Cas(move_key(digest("k3")), None, b"1")])
        for part in (names[:1], names[3:4], names, names):
            marks = [Mark(HERE, key(name), MarkKind.CANCELLED, b"1") for name in part]
            _, looked = await store.mark_and_look(marks, Look((), [digest(name) for name in part], [HERE, NEXT]))
            assert looked == Looked([], {digest("k3")} & {digest(name) for name in part}, set())
        await store.settle([record(1, 1, Outcome.ACKED)])
        marks = [Mark(HERE, key("k0"), MarkKind.CANCELLED, b"2")]
        assert await store.mark_and_look(marks, Look((), [digest("k0")], [HERE])) == (0, Looked([], set(), {HERE}))
        (found,) = await store.find(HERE, [(START_MS, digest("k0"))])
        assert [m.value for m in found.marks] == [b"1"]

    async def test_who_marks_rows_first_stays_the_first_however_many_there_are(self, store: Store) -> None:
        """Two callers cancel many rows, some of them both; one row was cancelled before, by itself."""
        names = [f"k{n:03}" for n in range(120)]
        await store.append([message("m", *(key(name) for name in names))])
        one, first, second = (
            [Mark(HERE, key(name), MarkKind.CANCELLED, who) for name in part]
            for part, who in ((names[30:31], b"alone"), (names[:80], b"first"), (names[60:], b"second"))
        )
        for marks in (one, first, second, first, second):
            await store.mark(marks)
        found = await store.find(HERE, [(START_MS, digest(name)) for name in names])
        expected = {**dict.fromkeys(names, b"second"), **dict.fromkeys(names[:80], b"first"), names[30]: b"alone"}
        assert [[m.value for m in each.marks] for each in found] == [[expected[name]] for name in names]
        assert {m.key.digest: m.value for m in (await scan(store)).marks} == {digest(n): v for n, v in expected.items()}

    async def test_many_rows_can_have_marks_of_several_kinds_and_versions(self, store: Store) -> None:
        names = [f"k{n:03}" for n in range(40)]
        again = [Mark(HERE, key(name, version=1), MarkKind.CANCELLED, b"1") for name in names]
        marks = [Mark(HERE, key(name), kind, b"1") for kind in (MarkKind.CANCELLED, MarkKind.MOVED) for name in names]
        await store.mark([*marks, *marks])
        await store.mark([*again, *marks])
        (found,) = await store.find(HERE, [(START_MS, digest(names[7]))])
        assert sorted(m[1:3] for m in found.marks) == [
            (key(names[7]), MarkKind.CANCELLED),
            (key(names[7]), MarkKind.MOVED),
            (key(names[7], version=1), MarkKind.CANCELLED),
        ]

    async def test_a_scan_by_cursor_sees_the_marks_of_many_rows_once(self, store: Store) -> None:
        names, cursors = [f"k{n:03}" for n in range(60)], [(await scan(store)).cursor]
        for n, part in enumerate((names[:25], names[25:26], names[26:])):
            await store.mark([Mark(HERE, key(name, n), MarkKind.PURGED, b"") for name in part])
            read = await scan(store, cursor=cursors[-1], lo_ms=START_MS + n, hi_ms=START_MS + n + 1)
            cursors.append(read.cursor)
            assert sorted(m.key.digest for m in read.marks) == [digest(name) for name in part]
        assert (await scan(store, lo_ms=START_MS + 3)).marks == []

    async def test_rows_that_were_marked_together_are_bare_no_longer(self, store: Store) -> None:
        names = [f"k{n:03}" for n in range(50)]
        places = [(START_MS, digest(name)) for name in names]
        await store.append([message("m", *(key(name) for name in names))])
        before = await store.look(Look([(HERE, places)], []))
        await store.mark([Mark(HERE, key(name), MarkKind.CANCELLED, b"1") for name in names[10:]])
        many, one = [await store.look(Look([(HERE, asked)], [digest("k000")])) for asked in (places, places[10:11])]
        assert [list(before.bare[0]), list(many.bare[0])] == [[True] * 50, [True] * 10 + [False] * 40]
        assert list(one.bare[0]) == [False]

    async def test_a_mark_may_come_before_its_row(self, store: Store) -> None:
        await store.mark([Mark(HERE, key("a", 7), MarkKind.CANCELLED, b"me")])
        (found,) = await store.find(HERE, [(START_MS + 7, digest("a"))])
        assert (len(found.rows), [m.key for m in found.marks]) == (0, [key("a", 7)])
        assert [m.key for m in (await scan(store)).marks] == [key("a", 7)]
        await store.append([message("a", key("a", 7))])
        (found,) = await store.find(HERE, [(START_MS + 7, digest("a"))])
        assert (len(found.rows), len(found.marks)) == (1, 1)

    async def test_a_scan_by_cursor_sees_late_marks_of_its_range(self, store: Store) -> None:
        await store.append([message("a", key("a", 7))])
        first = await scan(store)
        await store.mark([Mark(HERE, key("a", n), MarkKind.PURGED, b"") for n in (7, 8)])
        second = await scan(store, hi_ms=START_MS + 8, cursor=first.cursor)
        assert [m.key for m in second.marks] == [key("a", 7)]

    async def test_drop_forgets_one_partition_and_no_other(self, store: Store) -> None:
        later = RowKey(END_MS, digest("b"), 0)
        await store.append([message("a", key("a")), message("b", later, partition=NEXT)])
        await store.mark([Mark(HERE, key("a"), MarkKind.PURGED, b"")])
        assert await found_versions(store, [key("a")]) == [[0]]
        await store.drop(HERE)
        read = await scan(store)
        (found,) = await store.find(HERE, [(START_MS, digest("a"))])
        assert (read.keys, read.marks, len(found.rows), list(found.marks)) == ([], [], 0, [])
        assert (await scan(store, NEXT)).keys == [later]
        await store.drop(HERE)
        await store.append([carried(key("a"))])
        assert (await scan(store)).keys == [key("a")]

    async def test_a_finished_bucket_leaves_the_catalogue_when_it_is_dropped(self, store: Store) -> None:
        await store.append([message("a", key("a"))])
        await store.drop(HERE)
        assert [e.bucket_ms for e in await store.catalogue(0, START_MS, END_MS)] == [START_MS]
        await store.finish_bucket(0, START_MS, finished=True)
        await store.drop(HERE)
        assert list(await store.catalogue(None, START_MS, END_MS)) == []

    async def test_the_catalogue_names_each_bucket_oldest_first(self, store: Store) -> None:
        await store.append([batch("m", [START_MS + 2 * BUCKET_MS, START_MS, START_MS + 400 * BUCKET_MS])])
        await store.append([message("b", key("b"), partition=BACKLOG)])
        every = await store.catalogue(None, 0, 1 << 50)
        assert [(e.bucket_ms - START_MS) // BUCKET_MS for e in every] == [0, 0, 2, 400]
        assert {e.scope for e in every if e.bucket_ms == START_MS} == {0, 77}
        assert {(e.shard_count, e.finishing, e.finished) for e in every} == {(1, False, False)}
        assert [e.bucket_ms for e in await store.catalogue(77, 0, 1 << 50)] == [START_MS]
        part = await store.catalogue(0, START_MS + 1, START_MS + 400 * BUCKET_MS)
        assert [e.bucket_ms for e in part] == [START_MS + 2 * BUCKET_MS]

    async def test_finishing_stays_and_finished_is_recorded(self, store: Store) -> None:
        await store.append([message("a", key("a"))])
        for finished in (False, True, False):
            await store.finish_bucket(0, START_MS, finished=finished)
        await store.append([message("b", key("b"))])
        expected = BucketEntry(0, START_MS, 1, finishing=True, finished=True)
        assert list(await store.catalogue(0, 0, 1 << 50)) == [expected]

    async def test_the_facts_name_the_durability(self, store: Store) -> None:
        facts = await store.facts()
        assert facts.name
        assert facts.durability
        assert facts.corrupt == ()
