"""Dead letters and estimates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from timerd.model.task import Template
from timerd.ports import DeadLetter, Store
from timerd.testing.contracts.build import BACKLOG, HERE, MAILS, START_MS, key

MINUTE_MS = 60_000


def letter(name: str, died_at_ms: int, queue: str = "mails") -> DeadLetter:
    template = replace(MAILS, queue=queue, labels=(("a", "b"),))
    task_id = name.encode().ljust(44, b"-")
    return DeadLetter(task_id, key(name, 3, 2), HERE, template, START_MS, died_at_ms, 3, "it broke: ü", b"\0body", "k")


async def names(store: Store, queue: str = "", lo_ms: int = 0, hi_ms: int = 1 << 60) -> list[str]:
    dead_letters = await store.dead("default", queue, lo_ms, hi_ms, b"", 100)
    return [x.task_id.decode().rstrip("-") for x in dead_letters]


@pytest.mark.asyncio
class DeadLettersContract:
    async def test_a_letter_comes_back_whole(self, store: Store) -> None:
        sent = replace(letter("a", 10), partition=BACKLOG)
        await store.put_dead_letters([sent])
        assert list(await store.dead("default", "mails", 0, 11, b"", 5)) == [sent]
        assert list(await store.dead("other", "mails", 0, 11, b"", 5)) == []

    async def test_dead_letters_come_by_time_and_id_within_queue_and_range(self, store: Store) -> None:
        await store.put_dead_letters(
            [letter("c", 10), letter("b", 20), letter("a", 20), letter("d", 15, "other"), letter("e", 30)]
        )
        assert await names(store) == ["c", "d", "a", "b", "e"]
        assert await names(store, "other") == ["d"]
        assert await names(store, "mails", 10, 30) == ["c", "a", "b"]

    async def test_pages_go_on_behind_the_last_one(self, store: Store) -> None:
        await store.put_dead_letters([letter(name, 1 + n // 2) for n, name in enumerate("abcdefg")])
        for queue in ("", "mails"):
            after, seen = b"", []
            while page := await store.dead("default", queue, 0, 100, after, 2):
                seen += [x.task_id[:1] for x in page]
                after = page[-1].died_at_ms.to_bytes(8, "big") + page[-1].task_id
            assert b"".join(seen) == b"abcdefg"

    async def test_a_newer_letter_of_a_task_replaces_the_older(self, store: Store) -> None:
        await store.put_dead_letters([letter("a", 10)])
        await store.put_dead_letters([letter("a", 20)])
        assert [x.died_at_ms for x in await store.dead("default", "", 0, 100, b"", 5)] == [20]

    async def test_taken_ones_are_removed_and_returned(self, store: Store) -> None:
        dead_letters = [letter("a", 10), letter("b", 11)]
        await store.put_dead_letters(dead_letters)
        assert list(await store.take_dead_letters([dead_letters[1].task_id, b"?" * 44])) == [dead_letters[1]]
        assert list(await store.take_dead_letters([dead_letters[1].task_id])) == []
        assert await names(store) == ["a"]

    async def test_dead_letters_are_found_by_task_and_stay(self, store: Store) -> None:
        dead_letters = [letter("a", 10), letter("b", 11)]
        await store.put_dead_letters(dead_letters)
        for _ in range(2):
            assert list(await store.get_dead_letters([dead_letters[1].task_id, b"?" * 44])) == [dead_letters[1]]

    async def test_estimates_add_up_by_minute(self, store: Store) -> None:
        minute = START_MS
        await store.save_estimates({("d", "q", minute): 5, ("d", "r", minute): 2, ("e", "q", minute): 9})
        await store.save_estimates({("d", "q", minute): 1, ("d", "q", minute + MINUTE_MS): 3})
        assert await store.estimates("d", "q", minute, minute + MINUTE_MS) == {minute: 6}
        assert await store.estimates("d", "", 0, 1 << 60) == {minute: 8, minute + MINUTE_MS: 3}
        assert await store.estimates("d", "none", 0, 1 << 60) == {}

    async def test_estimates_are_added_up_as_they_are_told_by_minute(self, store: Store) -> None:
        minutes = [START_MS // MINUTE_MS * MINUTE_MS + n * MINUTE_MS for n in range(5)]
        await store.save_estimates({("d", "q", minute): 5 for minute in minutes} | {("d", "r", minutes[0]): -2})
        await store.save_estimates({("e", "q", minutes[0]): 9})
        assert await store.estimated("d", "q", minutes[1], minutes[4]) == (15, 3)
        assert (await store.estimated("d", "", 0, 1 << 60)).tasks == 23
        assert await store.estimated("d", "none", 0, 1 << 60) == (0, 0)

    async def test_dead_letters_of_namespaces_do_not_mix(self, store: Store) -> None:
        other = replace(letter("x", 10), template=Template("other", "mails"))
        await store.put_dead_letters([letter("a", 10), other])
        assert await names(store) == ["a"]
        assert list(await store.dead("other", "", 0, 100, b"", 5)) == [other]
