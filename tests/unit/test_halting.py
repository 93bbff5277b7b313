"""Notes of ordering keys that stand still: written before the end, read before anything is sent, true with a letter."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.unit.ordering_rig import Instance, instance, ordered
from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, key
from timerd.adapters.memory import MemoryStore
from timerd.core.ordering import OrderKeys
from timerd.model.halts import HALTED, Halt
from timerd.model.ordering import OnFailure
from timerd.model.storage import DeadLetter
from timerd.services.holding.halting import Halting

LETTER = DeadLetter(b"t" * 44, key(1), HERE, MAIL, 0, NOW_MS, 1, "no", b"body", ordering_key="a")


def halting_keys() -> OrderKeys:
    keys = OrderKeys()
    keys.goes_by(lambda _: OnFailure.HALT)
    return keys


async def test_a_note_without_its_dead_letter_halts_nothing() -> None:
    """Its task lives, or was redriven: the note goes."""
    store, keys, stale = MemoryStore(), halting_keys(), replace(LETTER, task_id=b"s" * 44, ordering_key="b")
    await store.put_dead_letters([LETTER])
    await Halting(keys, store).note([Halt.of(LETTER), Halt.of(stale)])
    after = halting_keys()
    halting = Halting(after, store)
    await halting.read()
    assert (after.halts.is_read, list(after.halts)) == (True, [Halt.of(LETTER)])
    assert [entry.key for entry in await store.list_entries(HALTED, b"", 10)] == [Halt.of(LETTER).name]


async def test_an_end_that_nobody_has_said_waits_for_its_note() -> None:
    """Of a task whose last attempt ended silently."""
    store, keys = MemoryStore(), halting_keys()
    halting = Halting(keys, store)
    assert not halting.may_end(LETTER)
    assert not halting.may_end(LETTER)
    while not halting.may_end(replace(LETTER, died_at_ms=NOW_MS + 10)):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    assert len(await store.list_entries(HALTED, b"", 10)) == 1
    keys.goes_by(lambda _: OnFailure.HOLD)
    assert halting.may_end(replace(LETTER, task_id=b"o" * 44))


async def test_a_key_goes_on_when_its_note_is_gone() -> None:
    store, here = MemoryStore(), instance(ordered(key(1), key(2)))
    halting = Halting(here.keys, store)
    await halting.read()
    await halting.note([Halt.of(LETTER)])
    assert here.taken() == []
    await halting.lives([b"o" * 44])
    assert here.taken() == []
    await halting.lives([LETTER.task_id])
    assert here.taken() == [key(1)]
    assert await store.list_entries(HALTED, b"", 10) == []


def test_nothing_that_has_a_key_is_sent_before_the_notes_are_read() -> None:
    here: Instance = instance(ordered(key(1)))
    here.keys.halts.is_read = False
    assert here.taken() == []
    here.keys.halts.is_read = True
    here.now_ms += 10
    assert here.taken() == [key(1)]


def test_of_several_that_halt_a_key_the_first_is_named() -> None:
    keys, first = halting_keys(), Halt.of(LETTER)
    later = first._replace(task_id=b"l" * 44, since_ms=NOW_MS + 1)
    for halt in (later, first):
        keys.halt(halt)
    assert keys.halts.find(QUEUE, "a") == first
    assert keys.halts.counts() == {QUEUE: 1}
    keys.resume(first)
    assert keys.halts.find(QUEUE, "a") == later
