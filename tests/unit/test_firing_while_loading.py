"""A holder fires what is due before it has read the rest: a store whose pages come in the order of positions says how
far it has been read. Beyond that nothing is sent and nothing is said, for there may be marks that are not known yet
(protocol section 4, load)."""

from __future__ import annotations

from dataclasses import replace

from tests.property.rereading import RereadingStore
from tests.unit.test_partition_machine import HERE, MAIL, NOW_MS, QUEUE, START_MS, acquired, control, key, rows
from timerd.core.effects import ReadPage
from timerd.core.holding import Asked, Phase
from timerd.core.partition_machine import PartitionMachine
from timerd.core.sweep import AHEAD_MS
from timerd.core.ties import end_marks
from timerd.core.waiting_rows import all_wait
from timerd.model.identity import RowKey
from timerd.model.registers import Place
from timerd.model.rows import RowGroup, single_row
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Mark, MarkKind, Page
from timerd.model.task import NO_EXTRA
from timerd.services.holding.paging import read_page

NOW_AFTER_MS = NOW_MS - START_MS
DUE, FAR = key(0, NOW_AFTER_MS), key(1, NOW_AFTER_MS + 30_000)
SOON_MS = NOW_MS + AHEAD_MS + 1


def part(*groups: RowGroup, through_ms: int) -> Page:
    return Page(groups, [], -7, done=False, rereads=True, through_ms=through_ms)


def taken(machine: PartitionMachine, now_ms: int) -> list[RowKey]:
    found = machine.take(QUEUE, 10, now_ms)
    return [] if found is None else found.rows.keys()


def begun() -> PartitionMachine:
    """It has read what is due, and a moment beyond."""
    machine, _ = acquired(control())
    [read] = machine.page_read(part(rows(DUE), through_ms=SOON_MS), NOW_MS)
    assert isinstance(read, ReadPage)
    assert machine.phase is Phase.HOT
    return machine


def test_what_is_due_is_sent_while_the_rest_is_being_read() -> None:
    assert taken(begun(), NOW_MS) == [DUE]


def test_as_long_as_what_is_due_has_not_been_read_nothing_is_sent() -> None:
    machine, _ = acquired(control())
    machine.page_read(part(rows(DUE), through_ms=NOW_MS + AHEAD_MS), NOW_MS)
    assert machine.phase is Phase.LOAD
    assert taken(machine, NOW_MS) == []


def test_what_it_hears_of_beyond_that_waits_until_its_marks_are_read() -> None:
    """It was cancelled before this holder came, the hint of it is late, and the next page does not come."""
    machine = begun()
    machine.hint(rows(FAR), 0)
    assert taken(machine, FAR.position_ms) == [DUE]
    cancelled = Mark(HERE, FAR, MarkKind.CANCELLED, b"request")
    machine.page_read(Page([rows(FAR)], [cancelled], 0, done=True, rereads=True), FAR.position_ms)
    assert taken(machine, FAR.position_ms) == []
    assert machine.ask(FAR) == (Asked.ENDED, Outcome.CANCELLED)


def test_it_does_not_answer_for_what_it_has_not_read() -> None:
    machine = begun()
    assert machine.ask(DUE) == (Asked.WAITING, None)
    assert machine.ask(FAR) == (Asked.UNKNOWN, None)
    assert all_wait(machine, [DUE])
    assert not all_wait(machine, [DUE, FAR])


def test_a_cancel_of_what_it_has_not_read_is_remembered() -> None:
    machine = begun()
    machine.cancel(FAR, Outcome.CANCELLED, b"request")
    machine.page_read(Page([rows(FAR)], [], 0, done=True, rereads=True), NOW_MS)
    assert taken(machine, FAR.position_ms) == [DUE]


def test_rows_that_an_earlier_holder_carried_are_all_met_first() -> None:
    """They are written again together, or not at all."""
    carry = Carry(FAR, CarryReason.RETRY, HERE, FAR.position_ms + 1_000, 1)
    record = SettleRecord(HERE, 5, 0, settle_entries([(FAR, Outcome.CARRIED)]), (carry,))
    machine, _ = acquired(control(), [record])
    machine.page_read(part(rows(DUE), through_ms=SOON_MS), NOW_MS)
    assert taken(machine, NOW_MS) == []
    machine.page_read(Page([rows(FAR)], [], 0, done=True, rereads=True), NOW_MS)
    assert taken(machine, NOW_MS) == [DUE]


def test_what_expired_while_the_load_lagged_behind_is_not_sent() -> None:
    row = single_row(DUE, DUE.position_ms, replace(MAIL, expire_at_ms=NOW_MS + 5_000), b"body", NO_EXTRA, 0)
    machine, _ = acquired(control())
    machine.page_read(part(row, through_ms=SOON_MS), NOW_MS)
    assert taken(machine, NOW_MS + 60_000) == []


def test_what_has_not_been_read_is_not_parked_either() -> None:
    machine = begun()
    assert taken(machine, NOW_MS) == [DUE]
    machine.hint(rows(FAR), 0)
    machine.tick(FAR.position_ms + 600_001)
    assert machine.log.settled.get(FAR) is None


async def test_a_cancel_at_the_last_instant_is_known_with_the_first_page() -> None:
    """Of a task whose place who cancelled it did not know, in pages of one row."""
    store = RereadingStore()
    await store.append([Append(((HERE, rows(DUE, FAR)),))])
    marks = end_marks([Place(HERE, DUE._replace(position_ms=START_MS + 10))], MarkKind.CANCELLED, b"request")
    await store.mark([mark for mark in marks if mark.key.position_ms == HERE.end_ms - 1])
    first = await read_page(store, ReadPage(HERE, START_MS, HERE.end_ms, 0), lambda group: group, page_bytes=1)
    assert not first.done
    machine, _ = acquired(control())
    machine.page_read(replace(first, through_ms=SOON_MS), NOW_MS)
    assert machine.phase is Phase.HOT
    assert taken(machine, NOW_MS) == []


def test_the_mark_stays_until_everything_has_been_read() -> None:
    machine = begun()
    assert machine.verifiable_ms() == machine.floor_ms
    machine.page_read(Page([], [], 0, done=True, rereads=True), NOW_MS)
    assert machine.sweep.loaded_ms > HERE.end_ms
