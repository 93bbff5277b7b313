"""Keys that stand still in a cluster: notes that another instance has written, or removed, are met with each look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.ordering_rig import ordered
from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, key, page
from timerd.adapters.memory import MemoryStore
from timerd.core.ordering import KeptShards, OrderedRows, OrderKeys
from timerd.core.ordering.kept_shards import NOTHING_MS
from timerd.core.partition import HoldingSettings, Memory, PartitionMachine
from timerd.model.halts import HALTED, Halt
from timerd.model.identity import ATTEMPT_BITS, RowKey, TaskId
from timerd.model.key_shards import NOBODY
from timerd.model.ordering import OnFailure, OrderPlace
from timerd.model.partition import Partition, key_shard_of
from timerd.model.registers import Control
from timerd.model.settle import Outcome
from timerd.model.storage import CasStatus, DeadLetter
from timerd.model.store_traits import StoreTraits
from timerd.services.holding.halted_tasks import HaltedTask
from timerd.services.holding.halting import Halting

SHARD = key_shard_of(QUEUE.namespace, QUEUE.queue, "a")
AT = HERE._replace(shard=SHARD)
TASK = TaskId(key(1).position_ms, SHARD, MAIL.scope, MAIL.priority, key(1).digest[:16], 1, b"m" * 8)
LETTER = DeadLetter(TASK.to_bytes(), key(1), AT, MAIL, 0, NOW_MS, 1, "no", b"", ordering_key="a", order_place=(1, 2))
OTHER = replace(LETTER, task_id=b"o" * 44)
BEHIND = OrderPlace(NOW_MS + 1_000, 3)


class Sharing:
    """Two instances on one store, of which the first one keeps the shard."""

    def __init__(self) -> None:
        self.store, self.found = MemoryStore(), HaltedTask.DEAD
        self.keeps, self.other = OrderKeys(), OrderKeys()
        for keys in (self.keeps, self.other):
            keys.is_single = False
            keys.goes_by(lambda _: OnFailure.HALT)
        self.keeps.kept_shards.taken(SHARD, NOBODY.taken_by("a", 7))
        self.keeper = Halting(self.keeps, self.store, self._finds, is_single=False)
        self.asked = Halting(self.other, self.store, self._finds, is_single=False)

    async def _finds(self, _: TaskId, __: int) -> HaltedTask:
        return self.found

    async def noted(self) -> list[bytes]:
        return [each.key.name for each in await self.store.list_entries(HALTED, b"", 10)]

    def lets_go(self) -> bool:
        return self.keeps.halts.lets_go(QUEUE, "a", b"of another task", BEHIND)


async def test_a_note_of_another_instance_is_met_with_the_next_look_and_so_is_that_it_is_gone() -> None:
    here = Sharing()
    await here.store.put_dead_letters([LETTER])
    await here.asked.note([Halt.of(LETTER)])
    await here.keeper.look()
    assert not here.lets_go()
    assert list(here.keeps.halts) == [Halt.of(LETTER)]
    await here.asked.resume(Halt.of(LETTER))
    await here.keeper.look()
    assert here.lets_go()
    assert await here.noted() == []


async def test_who_keeps_no_shard_reads_no_notes_until_it_is_asked() -> None:
    here = Sharing()
    await here.store.put_dead_letters([LETTER])
    await here.keeper.note([Halt.of(LETTER)])
    await here.asked.look()
    assert not here.other.halts.tasks
    assert await here.asked.standing() == [Halt.of(LETTER)]
    assert await here.asked.among([LETTER, OTHER]) == {LETTER.task_id}


async def test_who_redrives_goes_by_the_notes_of_the_key() -> None:
    """It keeps its place only where it alone halts the key."""
    here = Sharing()
    await here.keeper.note([Halt.of(LETTER)])
    async with here.asked.reviving(LETTER) as place:
        assert place == LETTER.order_place
    assert len(await here.noted()) == 1
    await here.keeper.note([Halt.of(OTHER)])
    async with Halting(OrderKeys(), here.store, here._finds, is_single=False).reviving(LETTER) as place:
        assert place is None
    assert await here.noted() == [Halt.of(OTHER).name.name]


async def test_a_task_that_another_instance_has_redriven_lets_its_key_go_when_it_ends() -> None:
    here = Sharing()
    rows = OrderedRows(AT, here.keeps, lambda *_: None, lambda _: False)
    await here.store.put_dead_letters([LETTER])
    await here.keeper.note([Halt.of(LETTER)])
    again = RowKey(NOW_MS + 10, TASK.digest, 1 << ATTEMPT_BITS)
    rows.file(ordered(again))
    filed = rows.find(again)
    assert filed is not None
    assert here.keeps.is_next(filed)
    rows.remove(filed)
    here.keeps.block(filed)
    here.keeps.end([(again, Outcome.ACKED)])
    assert here.lets_go()
    await here.keeper.look()
    assert here.lets_go(), "the note is about to go"
    await here.keeper.tend()
    assert await here.noted() == []


async def test_a_row_that_a_redrive_has_left_is_not_the_end_of_its_task() -> None:
    """Two tries of one redrive: the second one makes the first one fail, and writes a row of its own."""
    here = Sharing()
    await here.keeper.note([Halt.of(LETTER)])
    here.keeps.halts.revive(Halt.of(LETTER), 0)
    for left in (Outcome.MOVED, Outcome.FORWARDED):
        here.keeps.end([(RowKey(NOW_MS, TASK.digest, 1 << ATTEMPT_BITS), left)])
        assert not here.lets_go()
    here.keeps.end([(RowKey(NOW_MS, TASK.digest, 2 << ATTEMPT_BITS), Outcome.CANCELLED)])
    assert here.lets_go()


@pytest.mark.parametrize("is_noted_first", [True, False])
async def test_of_two_that_live_again_the_first_one_goes_and_neither_waits_for_the_other(is_noted_first: bool) -> None:
    """As where one of them was skipped by an instance while another one redrove it."""
    here = Sharing()
    rows = OrderedRows(AT, here.keeps, lambda *_: None, lambda _: False)
    second = TaskId(key(2).position_ms, SHARD, MAIL.scope, MAIL.priority, key(2).digest[:16], 2, b"m" * 8)
    halt = Halt.of(replace(LETTER, task_id=second.to_bytes()))
    first, last = (RowKey(NOW_MS + n, task.digest, 1 << ATTEMPT_BITS) for n, task in enumerate((TASK, second)))
    if is_noted_first:
        await here.keeper.note([halt])
    rows.file(ordered(first, last))
    if not is_noted_first:
        await here.asked.note([halt])
        await here.keeper.look()
    filed = rows.find(first)
    assert filed is not None
    assert here.keeps.is_next(filed)
    assert not here.lets_go(), "it may come before what stands behind it"


async def test_one_that_dies_again_is_noted_again_for_another_instance_may_remove_the_note() -> None:
    here = Sharing()
    await here.keeper.note([Halt.of(LETTER)])
    here.keeps.halts.revive(Halt.of(LETTER), 0)
    assert here.keeper.of([LETTER]) == [Halt.of(LETTER)]
    assert here.keeper.of([LETTER]) == []


async def test_who_removes_the_note_of_a_death_leaves_that_of_the_next_one() -> None:
    """It stood still between its look and its removal, and the task was redriven and has died again."""
    here, later = Sharing(), replace(LETTER, key=RowKey(NOW_MS, TASK.digest, 1 << ATTEMPT_BITS))
    await here.keeper.note([Halt.of(LETTER)])
    here.keeps.halts.revive(Halt.of(LETTER), 0)
    await here.keeper.note(here.keeper.of([later]))
    await here.store.put_dead_letters([later])
    await here.asked.resume(Halt.of(LETTER))
    await here.keeper.look()
    assert not here.lets_go()
    await here.keeper.tend()
    assert await here.noted() == [Halt.of(later).name.name]
    here.keeps.resume(Halt.of(LETTER))
    assert list(here.keeps.halts) == [Halt.of(later)]


async def test_a_note_of_a_death_before_the_last_one_is_over() -> None:
    """Whichever of two notes is read first."""
    here, later = Sharing(), replace(LETTER, key=RowKey(NOW_MS, TASK.digest, 1 << ATTEMPT_BITS))
    await here.store.put_dead_letters([later])
    await here.asked.note([Halt.of(later), Halt.of(LETTER)])
    await here.keeper.look()
    assert list(here.keeps.halts) == [Halt.of(later)]
    await here.keeper.tend()
    assert await here.noted() == [Halt.of(later).name.name]


async def test_only_who_keeps_the_key_looks_for_its_tasks() -> None:
    here = Sharing()
    await here.keeper.note([Halt.of(LETTER)])
    await here.asked.standing()
    here.found = HaltedTask.GONE
    await here.asked.tend()
    assert len(await here.noted()) == 1
    await here.keeper.look()
    here.keeps.halts.revive(Halt.of(LETTER), 0)
    await here.keeper.tend()
    assert await here.noted() == []


def taken(partition: Partition, kept: KeptShards, before: Control | None) -> PartitionMachine:
    memory = Memory(1 << 30)
    memory.order_keys.kept_shards = kept
    machine = PartitionMachine(partition, HoldingSettings("a", traits=StoreTraits(has_cursors=True)), memory)
    machine.start()
    machine.control_read(before, NOW_MS)
    machine.control_changed(CasStatus.APPLIED, NOW_MS)
    machine.settled_read([], NOW_MS)
    machine.page_read(page(), NOW_MS)
    return machine


def test_a_look_from_before_a_partition_was_taken_over_does_not_count() -> None:
    kept = KeptShards()
    kept.taken(SHARD, NOBODY.taken_by("a", 7))
    kept.begin_look(NOW_MS)
    kept.looked()
    first = taken(AT, kept, None)
    assert kept.known_ms(SHARD) == NOW_MS, "nobody has held it before"
    assert first.control is not None
    kept.begin_look(NOW_MS + 150)
    taken(AT, kept, first.control.released("a", first.floor_ms, ()))
    kept.looked()
    assert kept.known_ms(SHARD) == NOTHING_MS
    kept.begin_look(NOW_MS + 200)
    kept.looked()
    assert kept.known_ms(SHARD) == NOW_MS + 200
