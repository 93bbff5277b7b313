"""What the record of an end says of the task that it makes, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, acquired, hot, key, move, only, page, taken
from timerd.core.partition.effects import WriteCarried, WriteSettled
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol.procedures import Find, ReadRegister
from timerd.core.protocol.told_ends import prefix_of, tasks_of_ends
from timerd.core.taken import AckedRows, Again, Ended
from timerd.model.identity import RowKey, delivery_id_of, digest_of, parse_task_id
from timerd.model.partition import Partition, bucket_of
from timerd.model.registers import Move, MoveState
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, RowGroup, concat, single_row
from timerd.model.settle import Carry, Outcome, SettleRecord, ended_key
from timerd.model.storage import DeadLetter, Found, Mark, MarkKind
from timerd.model.task import Extra, Template

TELLS = Template(*QUEUE, labels=(("tenant", "7"),), on_end="ends", limit_key="acme", traceparent="00-t")
SECRET = b"secret"


def telling(*keys: RowKey, flags: int = 0, extra: Extra | None = None) -> RowGroup:
    extra = extra or Extra()
    return concat([single_row(each, each.position_ms, TELLS, b"body", extra, flags) for each in keys])


def written(machine: PartitionMachine) -> tuple[SettleRecord, list[Carry]]:
    """The record of what has ended, and the notes of which a task is made when it is durable."""
    [write] = only(machine.flush(NOW_MS), WriteSettled)
    assert isinstance(write, WriteSettled)
    return write.record, [note for each in carried(machine.settled_written(write.record)) for note in each.ends]


def carried(effects: Sequence[object]) -> list[WriteCarried]:
    return [each for each in effects if isinstance(each, WriteCarried)]


def made(
    notes: Sequence[Carry], place: Found, moved: Move | None = None, unwritten: Sequence[RowGroup] = ()
) -> list[tuple[Partition, RowGroup]]:
    """What the procedure makes of rows that the store has so."""
    procedure = tasks_of_ends(HERE, notes, SECRET, unwritten)
    try:
        request = next(procedure)
        while True:
            answer: object = [place] if isinstance(request, Find) else moved.to_bytes() if moved else None
            assert isinstance(request, Find | ReadRegister)
            request = procedure.send(answer)
    except StopIteration as stop:
        groups: list[tuple[Partition, RowGroup]] = stop.value
        return groups


def test_the_record_says_which_end_makes_a_task_and_where() -> None:
    machine = hot(telling(key(0), key(1)))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    record, notes = written(machine)
    stored = SettleRecord.unpack(HERE, record.token, record.sequence, record.pack())
    assert stored.carries == record.carries == tuple(notes)
    [note] = notes
    assert (ended_key(note), Outcome(note.ended), note.position_ms) == (key(0), Outcome.ACKED, NOW_MS)
    assert note.target == Partition(0, bucket_of(NOW_MS), HERE.shard)
    # Who does not know the note looks for no row by it.
    assert note.source.position_ms < 0
    assert note.source.digest not in (key(0).digest, key(1).digest)


@pytest.mark.parametrize("many", [False, True])
def test_an_end_is_not_done_before_its_task_is(*, many: bool) -> None:
    machine = hot(telling(key(0)))
    taken(machine)
    if many:
        machine.end_acked([AckedRows(HERE, [key(0).position_ms], [key(0).digest], [0])])
    else:
        machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    lsn = machine.lsn
    record, notes = written(machine)
    assert len(notes) == 1
    assert (machine.done_through < lsn, machine.is_idle) == (True, False)
    assert machine.unsettled_ms() == key(0).position_ms
    machine.carried_written(record.sequence)
    assert (machine.done_through, machine.is_idle) == (lsn, True)


def test_ends_of_others_make_none() -> None:
    plain = concat([single_row(key(0), key(0).position_ms, MAIL, b"", Extra(), 0)])
    machine = hot(plain, telling(RowKey(key(1).position_ms, digest_of(b"two messages", 0), 0)))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    assert written(machine)[1] == []
    assert machine.is_idle


def test_what_goes_on_has_not_ended() -> None:
    machine = hot(telling(key(0)))
    taken(machine)
    machine.again([Again(HERE, key(0), NOW_MS + 5, NOW_MS, "no")])
    assert written(machine)[1] == []


@pytest.mark.parametrize("is_next", [False, True])
def test_a_retry_that_is_cancelled_on_its_way_to_the_store_tells_its_end(*, is_next: bool) -> None:
    """`is_next`: by the next holder, which writes both again."""
    machine = hot(telling(key(0)))
    taken(machine)
    machine.again([Again(HERE, key(0), NOW_MS + 5, NOW_MS, "no")])
    [again] = only(machine.flush(NOW_MS), WriteSettled)
    assert isinstance(again, WriteSettled)
    [retry] = carried(machine.settled_written(again.record))
    [(_, row)] = retry.groups
    machine.cancel_all(row.keys(), Outcome.CANCELLED, b"r")
    [end] = only(machine.flush(NOW_MS), WriteSettled)
    assert isinstance(end, WriteSettled)
    writes = carried(machine.settled_written(end.record))
    if is_next:
        after, _ = acquired(machine.control, [again.record, end.record])
        writes = carried(after.page_read(page(telling(key(0))), NOW_MS + 60_000))
    [told] = [each for each in writes if each.ends]
    nothing = Found(row.select(slice(0, 0)))
    [(_, rows)] = made(told.ends, nothing, unwritten=told.unwritten)
    said = json.loads(rows.payload(0))
    assert (said["outcome"], said["queue"]) == ("CANCELLED", "mail")


def test_a_dead_letter_says_why_it_died() -> None:
    machine = hot(telling(key(0)))
    taken(machine)
    letter = DeadLetter(b"", key(0), HERE, TELLS, 0, 0, 1, "no such street", b"")
    machine.put_dead_letters([letter])
    machine.end([Ended(HERE, key(0), Outcome.DEAD)])
    [note] = written(machine)[1]
    assert (Outcome(note.ended), note.last_error) == (Outcome.DEAD, "no such street")


@pytest.mark.parametrize("is_read", [False, True])
def test_what_waits_tells_when_it_is_cancelled(*, is_read: bool) -> None:
    """Also where memory was too short for it: its message is known."""
    machine = hot(telling(key(0)))
    if is_read:
        machine.cancel(key(0), Outcome.CANCELLED, b"r")
        machine.end_met(key(0), Outcome.CANCELLED)
    else:
        machine.cancel_all([key(0)], Outcome.CANCELLED, b"r")
    [note] = written(machine)[1]
    assert (ended_key(note), Outcome(note.ended)) == (key(0), Outcome.CANCELLED)


def test_a_copy_that_ends_with_its_task_tells_nothing() -> None:
    """Whether it waits behind the open row, or is met when that is over."""
    machine = hot(telling(key(0), key(0, 1_001)), remembered=8)
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    assert len(written(machine)[1]) == 1
    machine.hint(telling(key(0, 1_002)), 0)
    assert taken(machine) == []
    assert machine.recorded(key(0, 1_002)) is Outcome.ACKED
    assert written(machine)[1] == []


def test_the_next_holder_makes_the_same_task() -> None:
    machine = hot(telling(key(0)))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    record, notes = written(machine)
    after, _ = acquired(machine.control, [record])
    [redo] = carried(after.page_read(page(telling(key(0))), NOW_MS + 60_000))
    assert redo.ends == notes
    place = Found(telling(key(0)))
    [(target, first)], [(_, second)] = made(notes, place), made(redo.ends, place)
    assert first.keys() == second.keys()
    assert bytes(first.payloads) == bytes(second.payloads)
    assert target == notes[0].target


def test_of_two_records_of_one_row_the_last_one_makes_its_task() -> None:
    """That of a holder which had been taken over may have come late (rule K4)."""
    records = []
    for outcome, token in ((Outcome.ACKED, 6), (Outcome.DEAD, 7)):
        machine = hot(telling(key(0)))
        taken(machine)
        machine.end([Ended(HERE, key(0), outcome)])
        record, _ = written(machine)
        records.append(SettleRecord(HERE, token, record.sequence, record.entries, record.carries))
    after, _ = acquired(machine.control, records)
    ends = [note for each in carried(after.page_read(page(telling(key(0))), NOW_MS)) for note in each.ends]
    assert [Outcome(note.ended) for note in ends] == [Outcome.DEAD]


def test_what_is_made_says_what_has_ended() -> None:
    machine = hot(telling(key(0)))
    taken(machine)
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    [(_, rows)] = made(written(machine)[1], Found(telling(key(0), extra=Extra(key="ada", last_error="busy"))))
    delivery_id = delivery_id_of(key(0).digest, 0)
    assert rows.keys() == [RowKey(NOW_MS, digest_of(prefix_of(delivery_id), 0), 0)]
    assert int(rows.columns["flags"][0]) == FLAG_CARRIED
    [template] = rows.templates
    assert (template.queue, template.namespace, template.on_end) == ("ends", "default", "")
    assert (template.limit_key, template.traceparent) == ("acme", "00-t")
    said = json.loads(rows.payload(0))
    task = parse_task_id(said["task_id"])
    assert task is not None
    assert (task.digest, task.home) == (key(0).digest, HERE)
    assert (said["outcome"], said["queue"], said["key"]) == ("ACKED", "mail", "ada")
    assert (said["labels"], said["attempt"], said["last_error"]) == ({"tenant": "7"}, 1, "busy")
    assert said["end_time"] == "2027-01-15T08:01:00.000Z"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_row_that_a_move_has_left_tells_nothing(*, is_there: bool) -> None:
    """Its new place tells. `is_there`: of that."""
    machine = hot(telling(key(0)))
    machine.cancel_all([key(0)], Outcome.CANCELLED, b"r")
    notes = written(machine)[1]
    row, marks = telling(key(0)), [Mark(HERE, key(0), MarkKind.MOVED, b"1")]
    moved = move(0, MoveState.FAILED if is_there else MoveState.MOVED)
    assert len(made(notes, Found(row, marks), moved)) == is_there
    brought = telling(key(0), flags=FLAG_MOVED_IN)
    assert len(made(notes, Found(brought), moved)) == is_there


def test_a_task_of_the_message_that_tells_nothing_makes_none() -> None:
    machine = hot(telling(key(0)))
    machine.cancel_all([key(0)], Outcome.CANCELLED, b"r")
    notes = written(machine)[1]
    other = concat([single_row(key(0), key(0).position_ms, MAIL, b"", Extra(), 0)])
    assert made(notes, Found(other)) == []
