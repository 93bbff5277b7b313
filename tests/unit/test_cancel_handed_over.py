"""A cancel beside a hand-over: its mark comes with the row that waits for a delivery, and ends that with the next
holder."""

from __future__ import annotations

from tests.property.world import START_MS, World, done
from tests.unit.procedure_rig import run
from timerd.core.protocol.cancel import Cancelled, end_task
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_CARRIED, single_row
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Mark, MarkKind
from timerd.model.task import Extra, Template

HERE = Partition(0, START_MS, 0)
TASK = TaskId(START_MS + 1_000, 0, Template("default", "q").scope, 0, b"p" * 12, 3, b"m" * 8)
SENT = RowKey(TASK.position_ms, TASK.digest, 0)
WAITS = RowKey(START_MS + 9_000, TASK.digest, 1)
HANDED_OVER = Carry(SENT, CarryReason.HAND_OVER, HERE, WAITS.position_ms, 1, WAITS.position_ms, 0, "")
NOW_MS = START_MS + 2_000


def handed_over(now_ms: int = NOW_MS) -> World:
    """By its record the task is cancelled where it waits for the end of the lease."""
    world = World()
    world.now_ms = now_ms
    for key, lease_ms in ((SENT, 0), (WAITS, WAITS.position_ms)):
        extra, flags = Extra(lease_until_ms=lease_ms), FLAG_CARRIED if lease_ms else 0
        row = single_row(key, SENT.position_ms, Template("default", "q"), b"", extra, flags)
        done(world.store.append([Append(((HERE, row),))]))
        done(world.store.mark([Mark(HERE, key, MarkKind.CANCELLED, b"r")]))
    carried, cancelled = settle_entries([(SENT, Outcome.CARRIED)]), settle_entries([(WAITS, Outcome.CANCELLED)])
    records = [SettleRecord(HERE, 1, 0, carried, (HANDED_OVER,)), SettleRecord(HERE, 2, 0, cancelled, ())]
    done(world.store.settle(records))
    return world


def said(world: World, *, is_marked: bool) -> Cancelled:
    return run(world, end_task(TASK, Outcome.CANCELLED, b"r", now_ms=NOW_MS, is_marked=is_marked))


def test_what_was_handed_over_with_its_lease_is_in_flight() -> None:
    """As its holder says where it is asked before it has written that down; and so the repeat says."""
    world = handed_over()
    assert said(world, is_marked=True) is Cancelled.IN_FLIGHT
    assert said(world, is_marked=False) is Cancelled.IN_FLIGHT


def test_what_the_repeat_said_first_the_first_try_says_as_well() -> None:
    """It was held up. Nobody knows whether it was answered CANCELLED before the worker was heard of."""
    world = handed_over()
    assert said(world, is_marked=False) is Cancelled.CANCELLED
    assert said(world, is_marked=True) is Cancelled.CANCELLED


def test_when_the_lease_is_over_it_is_cancelled() -> None:
    assert said(handed_over(WAITS.position_ms), is_marked=True) is Cancelled.CANCELLED
