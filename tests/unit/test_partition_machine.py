"""One held partition, fact by fact: what it asks for, and what must be durable before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from timerd.core.carry import carried_row, retry_carry
from timerd.core.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effects,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.holding import Asked, Offered, Phase, Settings
from timerd.core.memory import Memory
from timerd.core.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended, QueueKey
from timerd.model.identity import RowKey, digest_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control, Move, MoveState, Place
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, RowGroup, concat, single_row
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import CasStatus, Mark, MarkKind, Page
from timerd.model.task import NO_EXTRA, Template

START_MS = 1_800_000_000_000
NOW_MS = START_MS + 60_000
HERE = Partition(TIME_SCOPE, START_MS, 0)
QUEUE = QueueKey("default", "mail")
MAIL = Template(*QUEUE)
MESSAGE = b"one message."


def key(item: int, after_ms: int = 1_000, version: int = 0) -> RowKey:
    return RowKey(START_MS + after_ms, digest_of(MESSAGE, item), version)


def rows(*keys: RowKey, source: int = 0, flags: int = 0) -> RowGroup:
    group = concat([single_row(k, k.position_ms, MAIL, b"body", NO_EXTRA, flags) for k in keys])
    group.source = source
    return group


def page(*groups: RowGroup, marks: Sequence[Mark] = (), cursor: int = 0, done: bool = True) -> Page:
    return Page(groups, marks, cursor, done)


def control(verified_ms: int = 0, closing_ms: int = 0, **more: object) -> Control:
    return Control(5, "old", "", START_MS + closing_ms, START_MS + verified_ms, **more)  # type: ignore[arg-type]


def acquired(
    stored: Control | None = None, records: Sequence[SettleRecord] = (), *, remembered: int = 0
) -> tuple[PartitionMachine, Effects]:
    """A machine in LOAD, and its first page request."""
    machine = PartitionMachine(HERE, Settings("me", remembered=remembered), Memory(1 << 30))
    assert machine.start() == [ReadControl(HERE)]
    [change] = machine.control_read(stored, NOW_MS)
    assert isinstance(change, ChangeControl)
    assert change.expected == stored
    assert machine.control_changed(CasStatus.APPLIED, NOW_MS) == [ReadSettled(HERE)]
    return machine, machine.settled_read(records, NOW_MS)


def hot(*groups: RowGroup, stored: Control | None = None, cursor: int = 0, remembered: int = 0) -> PartitionMachine:
    machine, _ = acquired(stored, remembered=remembered)
    machine.page_read(page(*groups, cursor=cursor), NOW_MS)
    assert machine.phase is Phase.HOT
    return machine


def taken(machine: PartitionMachine, now_ms: int = NOW_MS) -> list[RowKey]:
    found = machine.take(QUEUE, 100, now_ms)
    return found.rows.keys() if found is not None else []


def mark_applied(machine: PartitionMachine, now_ms: int) -> Effects:
    [change] = [e for e in machine.tick(now_ms) if isinstance(e, ChangeControl)]
    assert change.value.closing_ms <= now_ms
    return machine.control_changed(CasStatus.APPLIED, now_ms)


def only(effects: Effects, kind: type) -> list[object]:
    return [e for e in effects if isinstance(e, kind)]


# -- acquire and recover ------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_a_page_read_after_the_own_token() -> None:
    machine, effects = acquired(control(verified_ms=500, closing_ms=2_000))
    assert effects == [ReadPage(HERE, START_MS + 500, HERE.end_ms, 0)]
    machine.hint(rows(key(0)), 0)
    assert taken(machine) == []
    assert machine.page_read(page(rows(key(1)), done=False), NOW_MS) == [ReadPage(HERE, START_MS + 500, HERE.end_ms, 0)]
    assert taken(machine) == []
    machine.page_read(page(rows(key(2))), NOW_MS)
    assert sorted(taken(machine)) == sorted([key(0), key(1), key(2)])


@pytest.mark.parametrize("seen", [None, 5, 3_000_000_000])
def test_the_token_grows_and_is_never_below_the_seconds_of_the_wall(seen: int | None) -> None:
    machine = PartitionMachine(HERE, Settings("me"), Memory(1 << 30))
    stored = Control(seen, "old", "", START_MS, START_MS) if seen is not None else None
    [change] = machine.control_read(stored, NOW_MS)
    assert isinstance(change, ChangeControl)
    assert change.value.token == max((seen or 0) + 1, NOW_MS // 1000)


def test_an_unknown_compare_and_set_is_settled_by_a_serial_read() -> None:
    machine = PartitionMachine(HERE, Settings("me"), Memory(1 << 30))
    [change] = machine.control_read(None, NOW_MS)
    assert isinstance(change, ChangeControl)
    assert machine.control_changed(CasStatus.UNKNOWN, NOW_MS) == [ReadControl(HERE)]
    assert machine.control_read(None, NOW_MS) == [change]
    assert machine.control_read(change.value, NOW_MS) == [ReadSettled(HERE)]


def test_a_stranger_in_the_control_row_means_lost() -> None:
    machine = hot(rows(key(0)))
    taken(machine)
    [change] = only(machine.tick(NOW_MS), ChangeControl)
    assert isinstance(change, ChangeControl)
    machine.control_changed(CasStatus.UNKNOWN, NOW_MS)
    machine.control_read(control(), NOW_MS)
    assert machine.phase is Phase.LOST
    assert taken(machine) == []
    assert machine.offer(rows(key(3)), 0) is Offered.BELOW_FLOOR


def test_a_finished_partition_is_left_alone() -> None:
    machine = PartitionMachine(HERE, Settings("me"), Memory(1 << 30))
    assert machine.control_read(control(finished_at_ms=NOW_MS), NOW_MS) == []
    assert machine.phase is Phase.DONE


def test_what_an_earlier_holder_settled_does_not_fire_and_its_carries_are_written_again_by_record() -> None:
    gone, retried, parked = key(0), key(1), key(2)
    carry = Carry(retried, CarryReason.RETRY, HERE, START_MS + 9_000, 1)
    records = [
        SettleRecord(HERE, 5, 0, settle_entries([(gone, Outcome.ACKED), (retried, Outcome.CARRIED)]), (carry,)),
        SettleRecord(HERE, 5, 1, settle_entries([(parked, Outcome.PARKED)])),
    ]
    machine, _ = acquired(control(), records)
    effects = machine.page_read(page(rows(gone, retried, parked, key(3))), NOW_MS)
    first, second = only(effects, WriteCarried)
    assert isinstance(first, WriteCarried)
    assert isinstance(second, WriteCarried)
    assert [k for _, g in first.groups for k in g.keys()] == [key(1, 9_000, 1)]
    assert second.groups[0][0] == Partition(MAIL.scope, START_MS, 0)
    assert taken(machine) == [key(3)]
    assert machine.verifiable_ms() == START_MS
    assert not only(machine.page_read(page(), NOW_MS), WriteCarried)
    machine.carried_written(first.sequence)
    machine.carried_written(second.sequence)
    assert not machine.log.recovers


def test_what_is_said_of_a_row_goes_along_when_it_is_written_again_by_a_record_of_an_earlier_holder() -> None:
    """It may have come after him: who ended or moved the task meanwhile has been answered, for nobody had the row."""
    ended, moved, other = key(0), key(1), key(2)
    carries = tuple(Carry(k, CarryReason.GUARD, HERE, START_MS + 9_000, 0) for k in (ended, moved, other))
    record = SettleRecord(HERE, 5, 0, settle_entries([(c.source, Outcome.CARRIED) for c in carries]), carries)
    machine, _ = acquired(control(), [record])
    marks = [Mark(HERE, ended, MarkKind.ACKED, b"r"), Mark(HERE, moved, MarkKind.MOVED, b"1")]
    [write] = only(machine.page_read(page(rows(ended, moved, other), marks=marks), NOW_MS), WriteCarried)
    assert isinstance(write, WriteCarried)
    assert write.given == [Mark(HERE, key(0, 9_000), MarkKind.ACKED, b"r")]
    flags = {k: int(g.columns["flags"][0]) for _, g in write.groups for k in g.keys()}
    assert flags == {
        key(0, 9_000): FLAG_CARRIED,
        key(1, 9_000): FLAG_CARRIED | FLAG_MOVED_IN,
        key(2, 9_000): FLAG_CARRIED,
    }


def test_what_a_later_holder_has_ended_is_not_written_again_because_an_earlier_one_had_carried_it() -> None:
    """The record of a holder that had been taken over may come late: of several of one row the latest counts (K4)."""
    carry = Carry(key(1), CarryReason.RETRY, HERE, START_MS + 9_000, 1)
    records = [
        SettleRecord(HERE, 5, 3, settle_entries([(key(1), Outcome.CARRIED)]), (carry,)),
        SettleRecord(HERE, 6, 0, settle_entries([(key(1), Outcome.ACKED)])),
    ]
    for given in (records, records[::-1]):
        machine, _ = acquired(control(), given)
        assert not only(machine.page_read(page(rows(key(1), key(2))), NOW_MS), WriteCarried)
        assert taken(machine) == [key(2)]
        assert machine.log.settled.get(key(1)) is Outcome.ACKED
        assert not machine.log.recovers


# -- hints, pages, offers -----------------------------------------------------------------------------------------


def test_rows_of_one_message_that_share_a_commit_are_told_apart() -> None:
    """One came as a hint; the other one, of the same message and commit, only with the page."""
    machine = hot()
    machine.hint(rows(key(0)), 7)
    machine.page_read(page(rows(key(0), key(1), source=7), cursor=7), NOW_MS)
    machine.hint(rows(key(1)), 7)
    assert sorted(taken(machine)) == [key(0), key(1)]


@pytest.mark.parametrize("flags", [0, FLAG_CARRIED])
def test_a_hint_that_comes_when_the_floor_has_passed_its_row_is_over(flags: int) -> None:
    """Its writer was paused, and it was carried on, acked and forgotten since."""
    machine = hot(stored=control(verified_ms=2_000, closing_ms=3_000))
    machine.hint(rows(key(0, 3_000), key(1, 1_000), flags=flags), 0)
    machine.hint(rows(key(2, 1_999), flags=flags), 0)
    assert taken(machine) == [key(0, 3_000)]


def test_a_hint_that_comes_after_the_first_of_two_pages_is_not_doubled() -> None:
    machine, _ = acquired()
    machine.page_read(page(rows(key(0), source=3), cursor=3, done=False), NOW_MS)
    machine.hint(rows(key(0)), 3)
    machine.page_read(page(cursor=4), NOW_MS)
    assert taken(machine) == [key(0)]


def test_a_store_without_cursors_is_known_by_key() -> None:
    machine = hot(rows(key(0)))
    machine.hint(rows(key(0), key(1)), 0)
    machine.page_read(page(rows(key(0), key(1))), NOW_MS)
    assert sorted(taken(machine)) == [key(0), key(1)]


def test_offers() -> None:
    machine = hot(rows(key(0, 3_000), source=2), stored=control(verified_ms=2_000, closing_ms=4_000), cursor=2)
    assert machine.offer(rows(key(0, 3_000)), 2) is Offered.ALREADY_HAVE
    assert machine.offer(rows(key(1, 3_000)), 3) is Offered.ADOPTED
    assert machine.offer(rows(key(2, 1_999)), 4) is Offered.BELOW_FLOOR
    assert sorted(taken(machine)) == [key(0, 3_000), key(1, 3_000)]


def test_what_was_refused_once_does_not_fire_from_its_place() -> None:
    machine = hot(stored=control(verified_ms=2_000, closing_ms=4_000))
    assert machine.offer(rows(key(0, 1_000), key(1, 3_000)), 3) is Offered.BELOW_FLOOR
    machine.page_read(page(rows(key(0, 1_000), key(1, 3_000), source=3), cursor=3), NOW_MS)
    assert taken(machine) == []
    assert machine.offer(rows(key(1, 3_000)), 3) is Offered.BELOW_FLOOR


def test_a_repeat_is_not_refused_by_a_holder_that_still_reads() -> None:
    """It may be among its rows, and acknowledged: refused, it would be ended and written again."""
    machine, _ = acquired(control(verified_ms=2_000, closing_ms=4_000))
    machine.phase = Phase.RECOVER
    assert machine.offer(rows(key(0, 3_000)), 3, is_repeat=True) is Offered.NOT_NOW
    assert machine.rows.row_verdicts == {}
    assert machine.offer(rows(key(0, 3_000)), 3) is Offered.BELOW_FLOOR
    assert list(machine.rows.row_verdicts) == [key(0, 3_000)]


def test_the_floor_rises_before_the_compare_and_set() -> None:
    machine = hot(rows(key(0, 5_000)), stored=control(closing_ms=4_000))
    [change] = only(machine.tick(NOW_MS), ChangeControl)
    assert isinstance(change, ChangeControl)
    assert change.value.verified_ms == START_MS + 4_000
    assert machine.offer(rows(key(1, 3_999)), 0) is Offered.BELOW_FLOOR


def test_what_an_earlier_holder_refused_is_refused_again_where_its_writer_did_not_say_where_it_went() -> None:
    """The writer has died before that. Whoever carries the row on again must not hear that it was taken in: as a row of
    this place it is over, and nothing would ever send it."""
    records = [SettleRecord(HERE, 5, 0, settle_entries([(key(0, 3_000), Outcome.FORWARDED)]))]
    machine, _ = acquired(control(verified_ms=500, closing_ms=10_000), records)
    machine.page_read(page(rows(key(0, 3_000)), cursor=7), NOW_MS)
    assert taken(machine) == []
    for source in (0, 7, 8):
        assert machine.offer(rows(key(0, 3_000)), source) is Offered.BELOW_FLOOR
    assert machine.offer(rows(key(1, 3_000)), 9) is Offered.ADOPTED


def test_a_page_on_its_way_when_closing_rose_is_not_its_scan() -> None:
    machine = hot(rows(key(0)))
    assert taken(machine) == [key(0)]
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    [record] = only(machine.flush(), WriteSettled)
    assert isinstance(record, WriteSettled)
    assert only(mark_applied(machine, NOW_MS), ReadPage)
    [change] = only(machine.tick(NOW_MS + 1_000), ChangeControl)
    assert isinstance(change, ChangeControl)
    assert machine.control_changed(CasStatus.APPLIED, NOW_MS + 1_000) == []
    machine.settled_written(record.record)
    again = machine.page_read(page(), NOW_MS + 1_000)
    assert machine.verifiable_ms() == NOW_MS
    assert only(again, ReadPage)
    machine.page_read(page(rows(key(1, 60_500))), NOW_MS + 1_000)
    assert machine.verifiable_ms() == START_MS + 60_500


# -- cancel and move ----------------------------------------------------------------------------------------------


def test_a_verdict_stands_for_rows_not_yet_known() -> None:
    machine = hot()
    assert machine.cancel(key(0), Outcome.CANCELLED, b"first") == b"first"
    assert machine.cancel(key(0), Outcome.CANCELLED, b"second") == b"first"
    machine.hint(rows(key(0), key(1)), 1)
    assert taken(machine) == [key(1)]
    assert machine.ask(key(0)) == (Asked.ENDED, Outcome.CANCELLED)
    assert machine.ask(key(1)) == (Asked.OPEN, None)
    assert machine.ask(key(2)) == (Asked.WAITING, None)


def test_marks_come_before_the_rows_of_their_page() -> None:
    machine, _ = acquired()
    marks = [
        Mark(HERE, key(0), MarkKind.CANCELLED, b"r"),
        Mark(HERE, key(1), MarkKind.FORWARD, b"1"),
        Mark(HERE, key(2), MarkKind.MOVED, b"1"),
    ]
    effects = machine.page_read(page(rows(*(key(n) for n in range(4))), marks=marks), NOW_MS)
    assert taken(machine) == [key(3)]
    assert effects == [AskMoves(HERE, [key(2).digest])]


def move(item: int, state: MoveState, generation: int = 1) -> Move:
    target = Place(HERE, key(item, 2_000, generation << 16))
    return Move(generation, state, Place(HERE, key(item)), target, "r", target.key.position_ms, target.key.position_ms)


def answer(machine: PartitionMachine, found: Move | None, item: int = 0) -> Effects:
    digest = key(item).digest
    return machine.moves_read({digest: found}, {digest: machine.asking(digest)})


def test_a_moved_in_row_fires_only_where_moves_says_that_it_lives() -> None:
    machine = hot(rows(key(0)))
    machine.suspend(key(0).digest)
    machine.hint(rows(key(0, 2_000, 1 << 16), flags=FLAG_MOVED_IN), 1)
    assert taken(machine) == []
    assert answer(machine, move(0, MoveState.MOVING)) == []
    assert taken(machine) == []
    [settled] = answer(machine, move(0, MoveState.MOVED))
    assert isinstance(settled, WriteSettled)
    assert settled.record.outcomes() == [(key(0), Outcome.MOVED)]
    assert taken(machine) == [key(0, 2_000, 1 << 16)]


def test_a_failed_move_leaves_the_source() -> None:
    machine = hot(rows(key(0)), rows(key(0, 2_000, 1 << 16), flags=FLAG_MOVED_IN))
    answer(machine, move(0, MoveState.FAILED))
    assert taken(machine) == [key(0)]


def test_a_later_ask_wins_over_an_answer_on_its_way() -> None:
    machine = hot(rows(key(0)))
    digest = key(0).digest
    machine.suspend(digest)
    begun = {digest: machine.asking(digest)}
    answer(machine, None)
    machine.suspend(digest)
    assert machine.moves_read({digest: None}, begun) == [AskMoves(HERE, [digest])]
    assert taken(machine) == []


def test_of_two_answers_the_one_about_the_later_move_counts_whichever_comes_last() -> None:
    """A retry whose row is still being written: it was met only after both."""
    machine = hot()
    digest = key(0).digest
    begun = {digest: machine.asking(digest)}
    answer(machine, move(0, MoveState.MOVED, generation=2))
    machine.moves_read({digest: move(0, MoveState.FAILED, generation=1)}, begun)
    assert machine.offer(rows(key(0, 1_000, 1)), 0, is_repeat=True) is Offered.ADOPTED
    assert taken(machine) == []
    assert machine.ask(key(0, 1_000, 1)) == (Asked.ENDED, Outcome.MOVED)


def test_an_answer_older_than_a_later_move_does_not_end_its_row() -> None:
    machine = hot(rows(key(0, 2_000, 1 << 16), flags=FLAG_MOVED_IN))
    later = key(0, 3_000, 2 << 16)
    machine.hint(rows(later, flags=FLAG_MOVED_IN), 1)
    answer(machine, move(0, MoveState.MOVED, 1))
    assert machine.ask(later) == (Asked.WAITING, None)
    answer(machine, move(0, MoveState.MOVED, 2))
    assert later in taken(machine)


def test_a_mover_that_left_is_not_waited_for() -> None:
    machine = hot(rows(key(0, 2_000, 1 << 16), flags=FLAG_MOVED_IN))
    told = [answer(machine, move(0, MoveState.MOVING)) for _ in range(11)]
    assert told[:10] == [[]] * 10
    assert told[10] == [FailMove(HERE, key(0).digest, move(0, MoveState.MOVING))]


# -- settling, carrying, finishing --------------------------------------------------------------------------------


def test_verified_waits_for_the_oldest_open_row() -> None:
    machine = hot(rows(key(0, 1_000), key(1, 2_000)))
    taken(machine)
    machine.end([Ended(HERE, key(1, 2_000), Outcome.ACKED)])
    [record] = only(machine.flush(), WriteSettled)
    assert isinstance(record, WriteSettled)
    machine.settled_written(record.record)
    mark_applied(machine, NOW_MS)
    machine.page_read(page(), NOW_MS)
    assert machine.verifiable_ms() == START_MS + 1_000


def test_a_carry_is_recorded_first_then_written_then_passed() -> None:
    machine = hot(rows(key(0)))
    taken(machine)
    ticket = machine.again([Again(HERE, key(0), START_MS + 400_000, NOW_MS, "no")])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    [write] = machine.settled_written(record.record)
    assert isinstance(write, WriteCarried)
    [(target, group)] = write.groups
    assert target == Partition(TIME_SCOPE, bucket_of(START_MS + 400_000), 0)
    assert group.keys() == [key(0, 400_000, 1)]
    assert machine.log.done_through < ticket
    assert machine.verifiable_ms() <= key(0).position_ms
    machine.carried_written(write.sequence)
    assert machine.log.done_through == ticket


def test_what_waits_for_a_silent_holder_elsewhere_holds_up_the_mark_and_no_ack() -> None:
    """It has its record; who is not reached may stay away for hours."""
    machine = hot(rows(key(0), key(1)))
    taken(machine)
    machine.again([Again(HERE, key(0), START_MS + 400_000, NOW_MS, "no")])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    [write] = machine.settled_written(record.record)
    assert isinstance(write, WriteCarried)
    ticket, _ = machine.end([Ended(HERE, key(1), Outcome.ACKED)])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    machine.log.carried_waits(write.sequence)
    assert machine.log.done_through == write.sequence < ticket
    machine.settled_written(record.record)
    assert machine.log.done_through == ticket
    assert machine.verifiable_ms() <= key(0).position_ms
    machine.carried_written(write.sequence)
    assert machine.log.done_through == ticket
    assert machine.log.is_idle


def test_what_failed_together_is_carried_together() -> None:
    """Ten thousand rows that a dead worker had in hand are a few groups, and each row says what it would say alone."""
    keys = [key(item, after_ms=item) for item in range(6)]
    sent = rows(*keys)
    machine = hot(sent)
    assert taken(machine) == keys
    machine.cancel(keys[1], Outcome.CANCELLED, b"r")
    near, far = NOW_MS, START_MS + 400_000
    failed = [Again(HERE, each, far if n == 4 else near, NOW_MS, "no") for n, each in enumerate(keys)]
    machine.again([*failed, failed[0]])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    assert dict(record.record.outcomes()) == {
        each: Outcome.CANCELLED if each == keys[1] else Outcome.CARRIED for each in keys
    }
    [write] = machine.settled_written(record.record)
    assert isinstance(write, WriteCarried)
    assert [(target.bucket_ms, len(group)) for target, group in write.groups] == [
        (bucket_of(near), 4),
        (bucket_of(far), 1),
    ]
    alone = [carried_row(sent, n, HERE, retry_carry(HERE, failed[n])).pack_keys() for n in (0, 2, 3, 5, 4)]
    assert [group.one(n).pack_keys() for _, group in write.groups for n in range(len(group))] == alone


@pytest.mark.parametrize("guarded", [True, False])
def test_a_task_that_was_cancelled_in_flight_is_not_carried_on(guarded: bool) -> None:
    machine = hot(rows(key(0)))
    taken(machine)
    machine.cancel(key(0), Outcome.CANCELLED, b"r")
    if guarded:
        machine.guard({key(0): NOW_MS + 5_000}, NOW_MS, CarryReason.GUARD)
    else:
        machine.again([Again(HERE, key(0), NOW_MS, NOW_MS, "no")])
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    assert record.record.outcomes() == [(key(0), Outcome.CANCELLED)]


def test_an_ack_of_an_older_attempt_ends_the_row_that_is_open() -> None:
    machine = hot(rows(key(0, 1_000, 1)))
    taken(machine)
    assert machine.end([Ended(HERE, key(0, 500, 0), Outcome.ACKED)])[1] == []
    [record] = machine.flush()
    assert isinstance(record, WriteSettled)
    assert record.record.outcomes() == [(key(0, 1_000, 1), Outcome.ACKED)]


def test_what_nobody_took_by_the_lag_limit_is_parked() -> None:
    machine = hot(rows(key(0)))
    effects = machine.tick(START_MS + 1_000 + 600_000)
    [record] = only(effects, WriteSettled)
    assert isinstance(record, WriteSettled)
    [write] = machine.settled_written(record.record)
    assert isinstance(write, WriteCarried)
    assert write.groups[0][0].scope == MAIL.scope
    assert write.groups[0][1].keys() == [key(0)]


def test_when_all_that_ended_is_verified_the_marks_rest_until_something_stirs() -> None:
    """Each would be a transaction, and a store that writes every second gives no memory back."""
    machine = hot(rows(key(0)))
    [sent] = taken(machine)
    machine.end([Ended(HERE, sent, Outcome.ACKED)])
    [written] = only(machine.flush(), WriteSettled)
    assert isinstance(written, WriteSettled)
    machine.settled_written(written.record)
    changes = 0
    for second in range(1, 20):
        now_ms = NOW_MS + second * 1_000
        for effect in machine.tick(now_ms):
            if isinstance(effect, ChangeControl):
                changes += 1
                machine.control_changed(CasStatus.APPLIED, now_ms)
            if machine.sweep.is_reading:
                machine.page_read(page(), now_ms)
    assert machine.control is not None
    assert machine.control.verified_ms == machine.control.closing_ms > sent.position_ms
    assert changes <= 3


def test_the_finish_flag_comes_first_then_closing_then_the_count() -> None:
    machine = hot(rows(key(0)))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    over_ms = HERE.end_ms + 5_000
    effects = machine.tick(over_ms)
    assert only(effects, FlagFinishing)
    assert not only(effects, ChangeControl)
    [record] = only(effects, WriteSettled)
    assert isinstance(record, WriteSettled)
    machine.settled_written(record.record)
    machine.flagged()
    mark_applied(machine, over_ms + 1_000)
    assert not only(machine.tick(over_ms + 2_000), CountRows)
    machine.page_read(page(), over_ms + 2_000)
    assert only(machine.tick(over_ms + 3_000), CountRows) == [CountRows(HERE)]
    for _ in range(Settings("me").recounts):
        # A row more than ended: its writer may be about to say that it lives elsewhere.
        assert machine.counted(3, over_ms + 3_000) == [CountRows(HERE, again=True)]
    [change] = machine.counted(3, over_ms + 3_000, forwards=1)
    assert isinstance(change, ChangeControl)
    assert (change.value.finished, change.value.inserted, change.value.verified_ms) == (True, 3, HERE.end_ms)
    assert dict(change.value.counts) == {Outcome.ACKED: 1, Outcome.FORWARDED: 1}
    machine.control_changed(CasStatus.APPLIED, over_ms + 3_000)
    assert machine.phase is Phase.DONE


@pytest.mark.parametrize("scope", [TIME_SCOPE, MAIL.scope], ids=["carried", "parked"])
def test_a_carry_that_is_written_once_more_after_an_error_is_not_there_twice(scope: int) -> None:
    """The store has its rows under the name of the first time; what came after them failed."""
    machine = PartitionMachine(HERE._replace(scope=scope), Settings("me"), Memory(1 << 30))
    machine.start()
    machine.control_read(None, NOW_MS)
    machine.control_changed(CasStatus.APPLIED, NOW_MS)
    machine.settled_read([], NOW_MS)
    machine.page_read(page(cursor=3), NOW_MS)
    for _ in range(2):
        machine.hint(rows(key(0), flags=FLAG_CARRIED if scope == TIME_SCOPE else 0), source=4)
    machine.hint(rows(key(1), flags=FLAG_CARRIED), source=4)
    assert sorted(taken(machine)) == [key(0), key(1)]
