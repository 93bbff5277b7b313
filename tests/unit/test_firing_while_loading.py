"""A holder fires what is due before it has read the rest: a store whose pages come in the order of positions says how
far it has been read. Beyond that nothing is sent and nothing is said, for there may be marks that are not known yet
(protocol section 4, load)."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, START_MS, acquired, control, key, rows
from timerd.core.partition.effects import ReadPage
from timerd.core.partition.holding import Asked, Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.sweep import AHEAD_MS
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup, single_row
from timerd.model.storage import Page
from timerd.model.store_traits import StoreTraits
from timerd.model.task import NO_EXTRA

NOW_AFTER_MS = NOW_MS - START_MS
DUE, FAR = key(0, NOW_AFTER_MS), key(1, NOW_AFTER_MS + 30_000)
SOON_MS = NOW_MS + AHEAD_MS + 1
IN_ORDER = StoreTraits(pages_in_order=True)


def part(*groups: RowGroup, through_ms: int) -> Page:
    return Page(groups, [], -7, done=False, through_ms=through_ms)


def taken(machine: PartitionMachine, now_ms: int) -> list[RowKey]:
    found = machine.take(QUEUE, 10, now_ms)
    return [] if found is None else found.rows.keys()


def begun() -> PartitionMachine:
    """It has read what is due, and a moment beyond."""
    machine, _ = acquired(control(), traits=IN_ORDER)
    [read] = machine.page_read(part(rows(DUE), through_ms=SOON_MS), NOW_MS)
    assert isinstance(read, ReadPage)
    assert machine.phase is Phase.HOT
    return machine


def test_it_does_not_answer_for_what_it_has_not_read() -> None:
    machine = begun()
    assert machine.ask(DUE) == (Asked.WAITING, None)
    assert machine.ask(FAR) == (Asked.UNKNOWN, None)
    assert machine.all_wait([DUE])
    assert not machine.all_wait([DUE, FAR])


def test_what_expired_while_the_load_lagged_behind_is_not_sent() -> None:
    row = single_row(DUE, DUE.position_ms, replace(MAIL, expire_at_ms=NOW_MS + 5_000), b"body", NO_EXTRA, 0)
    machine, _ = acquired(control(), traits=IN_ORDER)
    machine.page_read(part(row, through_ms=SOON_MS), NOW_MS)
    assert taken(machine, NOW_MS + 60_000) == []


def test_the_mark_stays_until_everything_has_been_read() -> None:
    machine = begun()
    assert machine.verifiable_ms() == machine.floor_ms
    machine.page_read(Page([], [], 0, done=True), NOW_MS)
    assert machine.loaded_ms > HERE.end_ms
