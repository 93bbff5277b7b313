"""Stretches: the rows of a partition in order, as List and Count go through them."""

from __future__ import annotations

import pytest

from timerd.ports import Mark, MarkKind, Store
from timerd.testing.contracts.build import HERE, MAILS, START_MS, carried, digest, key, message, stretches


@pytest.mark.asyncio
class StretchContract:
    """Every row once, in order, by as many as are asked for."""

    async def test_a_stretch_brings_the_next_rows_in_order(self, store: Store) -> None:
        """Whatever was written when, and of how many rows it is."""
        keys = [key(f"a{n:02}", n * 37 % 20) for n in range(60)]
        for n in range(0, 60, 6):
            await store.append([message(f"m{n}", *keys[n : n + 6])])
            # What comes between two stretches is in the later ones.
            await stretches(store, most_rows=25)
        for most_rows in (1, 7, 1_000):
            read = await stretches(store, most_rows=most_rows)
            assert [k for each in read for k in each.rows.keys()] == sorted(keys)
            assert all(len(each.rows) <= most_rows and not len(each.rows.payloads) for each in read)
        (part,) = await stretches(store, after=(START_MS + 3, digest("a20")), hi_ms=START_MS + 6)
        behind = (START_MS + 3, digest("a20"))
        expected = [k for k in sorted(keys) if behind < (k.position_ms, k.digest) < (START_MS + 6, b"")]
        assert list(part.rows.keys()) == expected
        assert part.rows.template_of(0) == MAILS

    async def test_a_stretch_keeps_versions_together_and_brings_their_marks(self, store: Store) -> None:
        first, again, other = key("a", 5), key("a", 5, 65_537), key("b", 5)
        await store.append([message("m", first, other)])
        await store.append([carried(again)])
        await store.mark([Mark(HERE, again, MarkKind.CANCELLED, b""), Mark(HERE, key("z", 9), MarkKind.MOVED, b"")])
        # What is marked and is no row may make a part of its own.
        one, two = [part for part in await stretches(store, most_rows=1) if len(part.rows)]
        assert [list(part.rows.keys()) for part in (one, two)] == [[first, again], [other]]
        assert [mark.key for mark in one.marks] == [again]

    async def test_a_stretch_of_nothing(self, store: Store) -> None:
        (read,) = await stretches(store)
        assert (len(read.rows), list(read.marks), read.through) == (0, [], None)

    async def test_a_stretch_of_what_was_dropped_is_of_what_came_since(self, store: Store) -> None:
        await store.append([message("m", key("a"), key("b", 7))])
        await stretches(store)
        await store.drop(HERE)
        await store.append([message("n", key("c", 3))])
        (read,) = await stretches(store)
        assert list(read.rows.keys()) == [key("c", 3)]
