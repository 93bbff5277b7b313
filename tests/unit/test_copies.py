"""A task that was written at several positions of one partition, because its call was repeated, is sent once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.partition_rig import (
    HERE,
    NOW_MS,
    QUEUE,
    acquired,
    hot,
    key,
    only,
    page,
    rows,
    taken,
)
from timerd.core.partition.carry import carried_rows, retry_carry
from timerd.core.partition.effects import WriteCarried, WriteSettled
from timerd.core.partition.holding import Asked
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.recent_ends import RecentEnds
from timerd.core.taken import AckedRows, Again, Ended
from timerd.model.identity import RowKey, next_attempt
from timerd.model.rows import FLAG_CARRIED
from timerd.model.settle import CarryReason, Outcome
from timerd.model.storage import Mark, MarkKind

FIRST, SECOND, THIRD = (key(0, after_ms=ms) for ms in (1_000, 3_000, 5_000))


def settled(machine: PartitionMachine) -> list[tuple[RowKey, Outcome]]:
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    found = machine._table._log.settled
    return [(each, outcome) for each in (FIRST, SECOND, THIRD) if (outcome := found.get(each)) is not None]


def all_alike(outcome: Outcome) -> list[tuple[RowKey, Outcome]]:
    return [(each, outcome) for each in (FIRST, SECOND, THIRD)]


def next_attempt_of(row: RowKey, position_ms: int) -> RowKey:
    return RowKey(position_ms, row.digest, next_attempt(row.version))


def test_one_of_them_is_sent_and_its_ack_ends_them_all() -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    assert taken(machine) == [FIRST]
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    assert settled(machine) == all_alike(Outcome.ACKED)
    assert machine.oldest_ms() is None


def test_what_comes_while_one_is_with_a_worker_waits_with_it() -> None:
    machine = hot(rows(FIRST))
    assert taken(machine) == [FIRST]
    machine.hint(rows(SECOND, THIRD), 0)
    assert taken(machine) == []
    assert machine.oldest_ms() == FIRST.position_ms
    machine.end([Ended(HERE, THIRD, Outcome.ACKED)])
    assert settled(machine) == all_alike(Outcome.ACKED)


def test_the_next_holder_sends_none_of_them_again() -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    after, _ = acquired(machine.control, [write.record])
    after.page_read(page(rows(FIRST, SECOND, THIRD)), NOW_MS)
    assert taken(after) == []


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_failure_carries_them_on_as_one(is_cancelled: bool) -> None:
    machine = hot(rows(FIRST, SECOND, THIRD))
    taken(machine)
    if is_cancelled:
        machine.cancel(SECOND, Outcome.CANCELLED, b"r")
    machine.again([Again(HERE, FIRST, NOW_MS + 5_000, NOW_MS, "failed")])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    carried = [] if is_cancelled else [FIRST, SECOND, THIRD]
    # Beside these there may be a note of the attempt that has ended, of no row.
    of_rows = [carry for carry in write.record.carries if carry.source in (FIRST, SECOND, THIRD)]
    assert [carry.source for carry in of_rows] == carried
    assert {carry.position_ms for carry in of_rows} <= {NOW_MS + 5_000}
    effects = only(machine.settled_written(write.record), WriteCarried)
    written = [group for each in effects if isinstance(each, WriteCarried) for _, group in each.groups]
    assert sum(map(len, written)) == (not is_cancelled)


def test_what_was_written_again_while_a_worker_had_it_goes_on_when_that_fails() -> None:
    """Its first row points to the second one: that one is the task, and may not end as "written again" itself."""
    machine = hot(rows(FIRST))
    assert taken(machine) == [FIRST]
    machine.mark([Mark(HERE, FIRST, MarkKind.FORWARD, b"%d" % SECOND.position_ms)])
    machine.hint(rows(SECOND), 0)
    assert taken(machine) == []
    machine.again([Again(HERE, FIRST, NOW_MS + 5_000, NOW_MS, "failed")])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    assert [(carry.source, carry.reason) for carry in write.record.carries] == [
        (FIRST, CarryReason.RETRY),
        (SECOND, CarryReason.RETRY),
    ]


def test_the_next_holder_writes_once_what_they_went_on_as() -> None:
    machine = hot(rows(FIRST, SECOND))
    taken(machine)
    machine.again([Again(HERE, FIRST, NOW_MS + 5_000, NOW_MS, "failed")])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    after, _ = acquired(machine.control, [write.record])
    effects = only(after.page_read(page(rows(FIRST, SECOND)), NOW_MS), WriteCarried)
    written = [group.keys() for each in effects if isinstance(each, WriteCarried) for _, group in each.groups]
    assert written == [[next_attempt_of(FIRST, NOW_MS + 5_000)]]


def test_a_row_that_comes_twice_is_sent_once() -> None:
    machine = hot(rows(FIRST, FIRST))
    assert taken(machine) == [FIRST]
    assert machine.end([Ended(HERE, FIRST, Outcome.ACKED)])[1] == []
    assert machine.oldest_ms() is None


def test_what_was_carried_on_unsent_has_ended_also_while_its_next_row_is_with_a_worker() -> None:
    """Both are the same attempt. Who carries the first one there once more would write it again elsewhere."""
    machine = hot(rows(FIRST))
    assert taken(machine) == [FIRST]
    machine.guard({FIRST: SECOND.position_ms}, NOW_MS, CarryReason.GUARD, was_sent=False)
    machine.hint(rows(SECOND), 0)
    assert taken(machine) == [SECOND]
    assert machine.ask(SECOND) == (Asked.OPEN, None)
    assert machine.ask(FIRST) == (Asked.ENDED, Outcome.CARRIED)


def test_at_a_hand_over_they_leave_together() -> None:
    machine = hot(rows(FIRST, SECOND))
    taken(machine)
    machine.guard({FIRST: NOW_MS + 30_000}, NOW_MS, CarryReason.HAND_OVER)
    assert not machine.open_rows
    assert machine.oldest_ms() is None


def test_what_is_given_back_waits_again_with_its_copies() -> None:
    machine = hot(rows(FIRST, SECOND))
    assert taken(machine) == [FIRST]
    assert machine.put_back(FIRST)
    assert taken(machine) == [FIRST]
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    assert machine.oldest_ms() is None


# -- another attempt by then --------------------------------------------------------------------------------------

RETRY = RowKey(NOW_MS + 50, FIRST.digest, next_attempt(FIRST.version))
LATER_MS = NOW_MS + 1_000


def failed_once() -> PartitionMachine:
    """The first row has failed, and its second attempt is with a worker."""
    machine = hot(rows(FIRST), remembered=10)
    taken(machine)
    machine.again([Again(HERE, FIRST, RETRY.position_ms, NOW_MS, "failed")])
    machine.hint(rows(RETRY, flags=FLAG_CARRIED), 0)
    return machine


@pytest.mark.parametrize("remembered", [0, 10])
def test_a_row_of_the_first_attempt_waits_with_the_second(remembered: int) -> None:
    machine = hot(rows(RETRY, flags=FLAG_CARRIED), remembered=remembered)
    assert taken(machine, LATER_MS) == [RETRY]
    machine.hint(rows(SECOND), 0)
    assert taken(machine, LATER_MS) == []
    assert machine.is_open(RETRY)
    assert machine.oldest_ms() == SECOND.position_ms
    machine.end([Ended(HERE, RETRY, Outcome.ACKED)])
    assert machine.recorded(SECOND) is Outcome.ACKED
    assert machine.oldest_ms() is None


@pytest.mark.parametrize("is_met", [False, True])
def test_whoever_asks_for_that_row_hears_that_a_worker_has_its_task(is_met: bool) -> None:
    machine = hot(rows(RETRY, flags=FLAG_CARRIED))
    taken(machine, LATER_MS)
    machine.hint(rows(SECOND), 0)
    if is_met:
        taken(machine, LATER_MS)
    assert machine.ask(SECOND) == (Asked.OPEN, None)


def test_before_its_instant_the_second_attempt_is_not_overtaken_by_the_first() -> None:
    machine = failed_once()
    machine.hint(rows(SECOND), 0)
    assert taken(machine) == []
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    assert {(c.source, c.position_ms, c.version) for c in write.record.carries} == {
        (source, RETRY.position_ms, RETRY.version) for source in (FIRST, SECOND)
    }
    assert taken(machine, LATER_MS) == [RETRY]


def test_what_goes_to_its_backlog_goes_with_its_copies() -> None:
    machine = hot(rows(FIRST, SECOND))
    [write] = only(machine.tick(SECOND.position_ms + 600_000), WriteSettled)
    assert isinstance(write, WriteSettled)
    [carried] = machine.settled_written(write.record)
    assert isinstance(carried, WriteCarried)
    assert [each for _, group in carried.groups for each in group.keys()] == [FIRST, SECOND]
    machine.carried_written(write.record.sequence)
    assert machine.oldest_ms() is None


# -- over by then -------------------------------------------------------------------------------------------------


def test_what_is_met_after_the_ack_does_not_come_again() -> None:
    machine = hot(rows(FIRST), remembered=10)
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    machine.hint(rows(SECOND), 0)
    assert taken(machine) == []
    assert machine.recorded(SECOND) is Outcome.ACKED


def test_nor_from_the_next_holder() -> None:
    machine = hot(rows(FIRST), remembered=10)
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    assert machine.control is not None
    passed = machine.control.with_mark(NOW_MS, FIRST.position_ms + 1, ())
    after, _ = acquired(passed, [write.record], remembered=10)
    after.page_read(page(rows(SECOND)), NOW_MS)
    assert taken(after) == []
    assert after.recorded(SECOND) is Outcome.ACKED


def test_all_that_is_met_after_the_ack_ends_so_that_nothing_holds_the_marks_back() -> None:
    machine = hot(rows(FIRST), remembered=10)
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    machine.hint(rows(SECOND, THIRD), 0)
    assert taken(machine) == []
    assert settled(machine) == all_alike(Outcome.ACKED)
    assert machine.oldest_ms() is None


def test_the_next_attempt_does_not_wait_with_a_late_row_of_the_one_before() -> None:
    machine = failed_once()
    machine.hint(rows(SECOND), 0)
    assert taken(machine, LATER_MS) == [RETRY]
    assert machine.recorded(SECOND) is Outcome.CARRIED


def test_what_was_pointed_elsewhere_is_sent_from_there() -> None:
    machine = hot(rows(FIRST), remembered=10)
    machine._table._log.end([(FIRST, Outcome.FORWARDED)])
    machine._table._rows.outcomes.end_unmet(FIRST, Outcome.FORWARDED)
    machine.hint(rows(SECOND), 0)
    assert taken(machine) == [SECOND]


def test_a_task_that_lives_again_is_another_delivery() -> None:
    machine = hot(rows(FIRST), remembered=10)
    taken(machine)
    machine.end([Ended(HERE, FIRST, Outcome.DEAD)])
    again = SECOND._replace(version=1 << 16)
    machine.hint(rows(again), 0)
    assert taken(machine) == [again]


def test_so_many_endings_are_remembered_and_twice_as_many_at_the_most() -> None:
    recent_ends = RecentEnds(3)
    keys = [key(n) for n in range(9)]
    for each in keys:
        recent_ends.add([(each, Outcome.ACKED)])
    known = [each for each in keys if recent_ends.otherwise(each._replace(position_ms=NOW_MS)) is not None]
    assert known == keys[len(keys) - len(known) :]
    assert 3 <= len(known) <= 6


def test_of_earlier_records_the_last_ones_are_remembered() -> None:
    machine = hot(rows(*(key(n) for n in range(6))))
    records = []
    for each in taken(machine):
        machine.end([Ended(HERE, each, Outcome.ACKED)])
        [write] = only(machine.flush(), WriteSettled)
        assert isinstance(write, WriteSettled)
        machine.settled_written(write.record)
        records.append(write.record)
    recent_ends = RecentEnds(4)
    recent_ends.load(records)
    ended = [pair[0].digest for record in records for pair in record.outcomes()]
    assert [recent_ends.knows_any([digest]) for digest in ended] == [False, False, True, True, True, True]


# -- a queue that is brought in again -----------------------------------------------------------------------------


def test_a_copy_that_was_left_in_the_store_is_met_when_its_queue_is_brought_in_again() -> None:
    machine = hot(rows(FIRST))
    assert taken(machine) == [FIRST]
    machine._table._rows.left.leave(QUEUE, (SECOND.position_ms, 0))
    machine._table._rows.met._known.add(rows(SECOND))
    machine._table._rows.begin_reload(QUEUE)
    machine.page_read(page(rows(FIRST, SECOND)), NOW_MS)
    assert machine.oldest_ms() == FIRST.position_ms
    assert taken(machine) == []
    machine.end([Ended(HERE, FIRST, Outcome.ACKED)])
    assert machine.recorded(SECOND) is Outcome.ACKED


@pytest.mark.parametrize("remembered", [0, 100])
@pytest.mark.parametrize("when", ["before", "meanwhile", "on the page"])
def test_carried_rows_that_were_stored_twice_are_sent_once(when: str, remembered: int) -> None:
    """Who carried them on began anew after an error, and both waited when the first were sent and acknowledged."""
    left = [key(n, 500) for n in range(40)]
    carries = [retry_carry(HERE, Again(HERE, each, NOW_MS - 1_000, NOW_MS - 2_000, "no")) for each in left]
    carried = carried_rows(rows(*left), HERE, carries)
    first, second = replace(carried, source=1), replace(carried, source=2)
    machine = hot(*([first, second] if when == "on the page" else [first]), cursor=1, remembered=remembered)
    if when == "before":
        machine.hint(second, 2)
    sent: list[RowKey] = []
    while machine._table._rows.waiting.oldest_ms() is not None:
        if (found := machine.take(QUEUE, 7, NOW_MS)) is None:
            continue
        sent += found.rows.keys()
        if when == "meanwhile" and len(sent) == len(found.rows):
            machine.hint(second, 2)
        columns = found.rows.columns
        acked = AckedRows(HERE, columns["position_ms"].tolist(), found.digests, columns["version"].tolist())
        assert machine.end_acked([acked]) == ([acked], [])
    assert sorted(sent) == sorted(carried.keys())
    assert machine.totals() == {Outcome.ACKED: 40}
