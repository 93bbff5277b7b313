"""Notes of ordering keys that stand still: written before the end, read before anything is sent, true with a letter."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.unit.ordering_rig import Instance, instance, ordered
from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, key
from timerd.adapters.memory import MemoryStore
from timerd.core.ordering import OrderKeys
from timerd.model.halts import HALTED, Halt
from timerd.model.identity import RowKey, TaskId
from timerd.model.ordering import OnFailure, OrderPlace, at_place
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.services.holding.halted_tasks import HaltedTask
from timerd.services.holding.halting import Halting

LETTER = DeadLetter(b"t" * 44, key(1), HERE, MAIL, 0, NOW_MS, 1, "no", b"body", ordering_key="a")


def halting_keys() -> OrderKeys:
    keys = OrderKeys()
    keys.goes_by(lambda _: OnFailure.HALT)
    return keys


async def nobody_looks(_: TaskId, __: int) -> HaltedTask:
    raise AssertionError


async def test_a_note_without_its_dead_letter_halts_nothing_once_its_task_was_looked_for() -> None:
    """It lives, and is the next of its key, or has ended since, and the note goes."""
    store, keys, stale = MemoryStore(), halting_keys(), replace(LETTER, task_id=b"s" * 44, ordering_key="b")
    await store.put_dead_letters([LETTER])
    await Halting(keys, store, nobody_looks).note([Halt.of(LETTER), Halt.of(stale)])
    after = halting_keys()

    async def finds(task: TaskId, _: int) -> HaltedTask:
        return HaltedTask.DEAD if task == TaskId.from_bytes(LETTER.task_id) else HaltedTask.GONE

    halting = Halting(after, store, finds)
    await halting.read()
    assert (after.halts.is_read, list(after.halts)) == (True, [Halt.of(LETTER)])
    assert not after.halts.lets_go(QUEUE, "b", b"of another task", OrderPlace(1, 2))
    await halting.tend()
    assert after.halts.lets_go(QUEUE, "b", b"of another task", OrderPlace(1, 2))
    assert [entry.key for entry in await store.list_entries(HALTED, b"", 10)] == [Halt.of(LETTER).name]


async def test_an_end_that_nobody_has_said_waits_for_its_note() -> None:
    """Of a task whose last attempt ended silently."""
    store, keys = MemoryStore(), halting_keys()
    halting = Halting(keys, store, nobody_looks)
    assert not halting.may_end(LETTER)
    assert not halting.may_end(LETTER)
    while not halting.may_end(replace(LETTER, died_at_ms=NOW_MS + 10)):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0)
    assert len(await store.list_entries(HALTED, b"", 10)) == 1
    keys.goes_by(lambda _: OnFailure.HOLD)
    assert halting.may_end(replace(LETTER, task_id=b"o" * 44))


async def test_a_key_goes_on_when_its_note_is_gone() -> None:
    store, here = MemoryStore(), instance(ordered(key(1), key(2)))
    halting = Halting(here.keys, store, nobody_looks)
    await halting.read()
    await halting.note([Halt.of(LETTER)])
    assert here.taken() == []
    await halting.lives([b"o" * 44])
    assert here.taken() == []
    await halting.lives([LETTER.task_id])
    assert here.taken() == [key(1)]
    assert await store.list_entries(HALTED, b"", 10) == []


async def test_while_what_was_redriven_is_not_met_nothing_behind_it_goes() -> None:
    """Its row stands later than those behind it, and may be read after them. Its end lets them go, and then the note
    goes."""
    store, here = MemoryStore(), instance(ordered(key(2), key(3)))
    first = key(9)
    task = TaskId(1, 0, MAIL.scope, 0, first.digest[:12], int.from_bytes(first.digest[12:], "big"), b"-" * 8)
    letter = replace(LETTER, task_id=task.to_bytes(), order_place=(1, 0))
    halting = Halting(here.keys, store, nobody_looks)
    await halting.read()
    await halting.note([Halt.of(letter)])
    async with halting.reviving(letter) as place:
        assert place == (1, 0)
    assert here.taken() == []
    moved = first._replace(version=1 << 16)
    rows = ordered(moved)
    rows.extras = [at_place(rows.extras[0], OrderPlace(1, 0), int(rows.columns["index"][0]))]
    here.machine.hint(rows, 0)
    assert here.taken() == [moved]
    assert len(await store.list_entries(HALTED, b"", 10)) == 1
    here.ends(moved)
    here.is_durable()
    assert here.taken() == [key(2)]
    await halting.tend()
    assert await store.list_entries(HALTED, b"", 10) == []


def test_the_end_of_its_life_before_lets_nothing_go() -> None:
    """That end may become known after the redrive has begun."""
    keys, halt = halting_keys(), Halt.of(LETTER)
    digest = TaskId.from_bytes(LETTER.task_id).digest
    keys.halt(halt)
    keys.halts.revive(halt, 3)
    keys.end([(RowKey(1, digest, 3 << 16), Outcome.DEAD)])
    assert keys.halts.lifted == []
    keys.end([(RowKey(1, digest, 4 << 16), Outcome.ACKED)])
    assert keys.halts.lifted == [halt]


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
    assert list(keys.halts.names()) == [(QUEUE, "a")]
    keys.resume(first)
    assert keys.halts.find(QUEUE, "a") == later
