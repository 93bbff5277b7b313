"""Rows that were sent together and are acked together end together, as if each had ended by itself."""

from __future__ import annotations

import pytest

from tests.unit.partition_rig import HERE, NOW_MS, QUEUE, acquired, hot, key, only, page, rows
from tests.unit.row_keys import KEYS
from timerd.core.partition.effects import WriteSettled
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.recent_ends import RecentEnds
from timerd.core.partition.settled_index import FRESH
from timerd.core.taken import AckedRows, Again, Ended, Taken
from timerd.model.identity import RowKey, digest_of, next_attempt
from timerd.model.settle import Outcome


def sent(machine: PartitionMachine, most: int = len(KEYS)) -> Taken:
    taken = machine.take(QUEUE, most, NOW_MS)
    assert taken is not None
    return taken


def acked(taken: Taken, first: int = 0, stop: int = len(KEYS)) -> AckedRows:
    keys = taken.rows.keys()[first:stop]
    return AckedRows(HERE, [k.position_ms for k in keys], [k.digest for k in keys], [k.version for k in keys])


def record_of(machine: PartitionMachine) -> list[tuple[RowKey, Outcome]]:
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    return write.record.outcomes()


def ended(keys: list[RowKey]) -> list[tuple[RowKey, Outcome]]:
    return [(each, Outcome.ACKED) for each in keys]


def test_all_are_over_and_stand_in_one_record() -> None:
    machine = hot(rows(*KEYS))
    parts = [acked(sent(machine))]
    assert machine.end_acked(parts) == (parts, [])
    assert not machine.open_rows
    assert [machine.recorded(each) for each in KEYS] == [Outcome.ACKED] * len(KEYS)
    assert not machine.is_idle
    assert machine.unsettled_ms() == KEYS[0].position_ms
    assert record_of(machine) == ended(KEYS)
    assert machine.totals() == {Outcome.ACKED: len(KEYS)}


def test_they_share_the_record_with_those_that_ended_one_by_one() -> None:
    machine = hot(rows(*KEYS))
    taken = sent(machine)
    machine.end([Ended(HERE, KEYS[0], Outcome.DEAD)])
    machine.end_acked([acked(taken, 1, 20), acked(taken, 20)])
    assert record_of(machine) == [(KEYS[0], Outcome.DEAD), *ended(KEYS[1:])]


def test_the_next_holder_sends_none_of_them_again() -> None:
    machine = hot(rows(*KEYS))
    machine.end_acked([acked(sent(machine))])
    [write] = only(machine.flush(), WriteSettled)
    assert isinstance(write, WriteSettled)
    after, _ = acquired(machine.control, [write.record])
    after.page_read(page(rows(*KEYS)), NOW_MS)
    assert after.take(QUEUE, len(KEYS), NOW_MS) is None


def test_those_of_a_part_are_over_and_the_others_hold_the_mark() -> None:
    machine = hot(rows(*KEYS))
    taken = sent(machine)
    machine.end_acked([acked(taken, 0, 30)])
    assert sorted(machine.open_keys()) == KEYS[30:]
    assert machine.oldest_ms() == KEYS[0].position_ms
    machine.end_acked([acked(taken, 30)])
    assert machine.oldest_ms() is None


def another_attempt(machine: PartitionMachine) -> None:
    machine.again([Again(HERE, KEYS[7], NOW_MS, NOW_MS, "")])


def one_is_over(machine: PartitionMachine) -> None:
    machine.end([Ended(HERE, KEYS[7], Outcome.EXPIRED)])


def first_is_over(machine: PartitionMachine) -> None:
    machine.end([Ended(HERE, KEYS[0], Outcome.EXPIRED)])


def one_has_a_copy(machine: PartitionMachine) -> None:
    machine.hint(rows(KEYS[7]._replace(position_ms=KEYS[7].position_ms + 5)), 0)
    assert machine.take(QUEUE, 1, NOW_MS) is None


def one_was_sent_again(machine: PartitionMachine) -> None:
    assert machine.put_back(KEYS[7])
    sent(machine, 1)


@pytest.mark.parametrize("meanwhile", [another_attempt, one_is_over, first_is_over, one_has_a_copy, one_was_sent_again])
def test_where_one_of_them_is_not_as_it_was_sent_nothing_is_done(meanwhile: object) -> None:
    machine = hot(rows(*KEYS))
    part = acked(sent(machine))
    assert callable(meanwhile)
    meanwhile(machine)
    open_before = set(machine._table._rows.open.keys())
    assert machine.end_acked([part]) == ([], [Ended(HERE, *each) for each in ended(KEYS)])
    assert machine._table._rows.open.keys() == open_before


def test_another_version_of_them_is_not_taken_for_them() -> None:
    machine = hot(rows(*KEYS))
    part = acked(sent(machine))
    later = AckedRows(HERE, part.positions, part.digests, [next_attempt(v) for v in part.versions])
    moved = AckedRows(HERE, [at_ms + 1 for at_ms in part.positions], part.digests, part.versions)
    longer = AckedRows(HERE, [*part.positions, 0], [*part.digests, digest_of(b"x" * 12, 1)], [*part.versions, 0])
    assert machine.end_acked([later, moved, longer])[0] == []
    assert machine.open_rows == len(KEYS)


def test_repeats_hear_of_them() -> None:
    machine = hot(rows(*KEYS))
    machine._table._log.recent_ends = RecentEnds(100)
    machine.end_acked([acked(sent(machine))])
    elsewhere = KEYS[3]._replace(position_ms=KEYS[3].position_ms + 500)
    assert machine._table._log.recent_ends.otherwise(elsewhere) is Outcome.ACKED


def test_what_has_been_passed_is_forgotten() -> None:
    machine = hot(rows(*KEYS))
    machine.end_acked([acked(sent(machine))])
    below = machine._table._log.counts_below(KEYS[-1].position_ms + 1)
    machine._table._log.forget_below(KEYS[-1].position_ms + 1)
    assert dict(below) == {int(Outcome.ACKED): len(KEYS)}
    assert (machine.settled_rows, machine.totals()) == (0, {Outcome.ACKED: len(KEYS)})


def test_many_are_sorted_at_once() -> None:
    keys = [key(n, after_ms=1_000 + n % 7) for n in range(FRESH + 1)]
    machine = hot(rows(*keys))
    while (taken := machine.take(QUEUE, 1_000, NOW_MS)) is not None:
        machine.end_acked([acked(taken, 0, 1_000)])
    assert (machine.settled_rows, machine.open_rows) == (len(keys), 0)
    assert machine._table._log.settled.knows_any([keys[0], key(0, after_ms=3_000)])
    assert machine._table._log.settled.known(rows(*keys)).all()
