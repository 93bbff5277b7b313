"""Rows that are written again elsewhere: which places were chosen before, and what was said of them there."""

from __future__ import annotations

from typing import TypeGuard

import pytest

from timerd.core.partition.holding import Asked, Offered
from timerd.core.protocol.insertion import MAX_ROUNDS, ClosedForGood, Inserted, insert, insert_carried
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    Ending,
    Find,
    FindSettledMany,
    HintRows,
    HolderAnswer,
    OfferRows,
    SetMarks,
)
from timerd.model.errors import StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.registers import Control
from timerd.model.rows import RowGroup, concat, single_row
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Appended, Found, Mark, MarkKind
from timerd.model.task import NO_EXTRA, Template

HERE = Partition(TIME_SCOPE, 0, 0)
NOBODY = HolderAnswer(None)
DIGEST = b"p" * 12 + b"\0\0\0\3"
CLOSED = Control(1, "me", "", 1_000, 1_000).to_bytes()
# 10 points to 20, 20 to 30, ...: more places than an insert may choose anew.
POINTED = {10 * n: 10 * (n + 1) for n in range(1, MAX_ROUNDS * 2)}


def row(position_ms: int) -> RowGroup:
    return single_row(RowKey(position_ms, DIGEST, 1), 10, Template("default", "q"), b"", NO_EXTRA, 0)


def test_places_that_were_chosen_before_are_followed_however_many_there_are() -> None:
    procedure = insert(Append(((HERE, row(10)),)), 500)
    answer: object = None
    written: list[int] = []
    done = Inserted()
    try:
        while True:
            request = procedure.send(answer)
            match request:
                case AppendRows(messages):
                    written.append(int(messages[0].groups[0][1].columns["position_ms"][0]))
                    answer = [Appended({HERE: CLOSED}, {}, frozenset(), None)]
                case OfferRows():
                    answer = Offered.BELOW_FLOOR
                case Find(_, keys):
                    to_ms = POINTED.get(keys[0][0])
                    key = RowKey(keys[0][0], DIGEST, 1)
                    marks = [Mark(HERE, key, MarkKind.FORWARD, b"%d" % to_ms)] if to_ms else []
                    answer = [Found(row(10), marks)]
                case FindSettledMany():
                    answer = [Ending(None)]
                case SetMarks() | HintRows():
                    answer = ()
    except StopIteration as end:
        done = end.value
    assert written == [*POINTED, max(POINTED.values()), 1_000]
    assert done.moved == {(10, DIGEST): 1_000}


def rival_was_first(*said: Mark, holder: Offered | None = Offered.BELOW_FLOOR) -> tuple[list[object], Inserted | None]:
    """Another try of the call points to 2,000 just before this one points to 1,000; `said` of the old place. What is
    asked for but reads, and the end, unless it is refused."""
    procedure = insert(Append(((HERE, row(10)),)), 500)
    first = Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.FORWARD, b"2000")
    answer: object = None
    asked: list[object] = []
    try:
        while True:
            request = procedure.send(answer)
            if not isinstance(request, Find | FindSettledMany):
                asked.append(request)
            is_first = sum(isinstance(each, AppendRows) for each in asked) == 1
            match request:
                case AppendRows():
                    control = CLOSED if is_first else Control(1, "me", "", 2_000 + (holder is None), 1_000).to_bytes()
                    answer = [Appended({HERE: control}, {}, frozenset(), None)]
                case OfferRows():
                    answer = Offered.BELOW_FLOOR if is_first else holder
                case Find():
                    is_marked = any(isinstance(each, SetMarks) for each in asked)
                    answer = [Found(row(10), [first, *said] if is_marked else [])]
                case FindSettledMany():
                    answer = [Ending(None)]
                case AskToEnd():
                    answer = HolderAnswer(None)
                case _:
                    answer = 0
    except StopIteration as end:
        return asked, end.value
    except ClosedForGood:
        return asked, None


def test_of_two_who_write_a_row_again_at_the_same_time_both_go_where_the_first_one_pointed() -> None:
    """Else one task has two ways, and may come on the second one when its end on the first one is forgotten. The row is
    written there again, for who pointed there may have died before it was; it is hinted by whom it belongs to."""
    asked, done = rival_was_first()
    places = [int(each.messages[0].groups[0][1].columns["position_ms"][0]) for each in asked if is_append(each)]
    assert places == [10, 2_000]
    assert done is not None
    assert done.moved == {(10, DIGEST): 2_000}
    assert not any(isinstance(each, HintRows) for each in asked)


def test_who_follows_another_try_does_not_write_again_what_the_next_holder_will_read() -> None:
    """The other one may have been told OK, and this one may die between its mark and its row."""
    asked, done = rival_was_first(holder=None)
    assert done is None
    assert sum(isinstance(each, SetMarks) for each in asked) == 1


def test_what_was_cancelled_meanwhile_is_cancelled_where_the_first_one_pointed() -> None:
    asked, _ = rival_was_first(Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.CANCELLED, b"r"))
    assert AskToEnd(HERE, RowKey(2_000, DIGEST, 1), Outcome.CANCELLED, b"r") in asked


def is_append(request: object) -> TypeGuard[AppendRows]:
    return isinstance(request, AppendRows)


def verdicts_taken_along(
    at_old_place: list[Mark], holder: HolderAnswer = NOBODY
) -> list[SetMarks | AskToEnd | AppendRows]:
    """What is asked for between the row that was refused and the one that is written instead, but reads."""
    procedure = insert(Append(((HERE, row(10)),)), 500)
    answer: object = None
    asked: list[SetMarks | AskToEnd | AppendRows] = []
    while sum(isinstance(each, AppendRows) for each in asked) < 2:
        request = procedure.send(answer)
        if isinstance(request, SetMarks | AskToEnd | AppendRows):
            asked.append(request)
        match request:
            case AppendRows():
                answer = [Appended({HERE: CLOSED}, {}, frozenset(), None)]
            case OfferRows():
                answer = None
            case Find():
                answer = [Found(row(10), at_old_place if asked[1:] else [])]
            case FindSettledMany():
                answer = [Ending(None)]
            case AskToEnd():
                answer = holder
            case _:
                answer = ()
    return asked[2:-1]


def test_who_was_cancelled_where_it_was_being_written_is_cancelled_in_its_next_place() -> None:
    """The mark came while the row was on its way, and the answer was given: now the row goes on elsewhere."""
    cancelled = Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.CANCELLED, b"r")
    assert verdicts_taken_along([cancelled]) == [
        SetMarks([Mark(HERE, RowKey(1_000, DIGEST, 1), MarkKind.CANCELLED, b"r")]),
        AskToEnd(HERE, RowKey(1_000, DIGEST, 1), Outcome.CANCELLED, b"r"),
    ]


def test_where_the_holder_of_the_next_place_is_silent_the_row_is_not_written_beside_it() -> None:
    """It would take the row in by the hint, without its mark, and send it after CANCELLED was said."""
    cancelled = Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.CANCELLED, b"r")
    with pytest.raises(StoreUnknown):
        verdicts_taken_along([cancelled], HolderAnswer(Asked.SILENT))


def test_what_was_said_of_another_attempt_stays_there() -> None:
    assert verdicts_taken_along([Mark(HERE, RowKey(10, DIGEST, 0), MarkKind.CANCELLED, b"r")]) == []
    assert verdicts_taken_along([Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.MOVED, b"1")]) == []


def carried_to(answers: dict[Partition, Offered | None]) -> tuple[list[object], bool]:
    """One row to each place, all of them below `closing`: what is asked for but reads, and whether it was done."""
    procedure = insert_carried(Append(tuple((place, row(place.bucket_ms + 10)) for place in answers)), 500)
    answer: object = None
    asked: list[object] = []
    try:
        while True:
            request = procedure.send(answer)
            asked.append(request)
            match request:
                case AppendRows(messages):
                    closed = Control(1, "me", "", BUCKET_MS + 1_000, 0).to_bytes()
                    answer = [Appended({place: closed for place, _ in messages[0].groups}, {}, frozenset(), None)]
                case OfferRows(place):
                    answer = answers.get(place)
                case Find(_, keys):
                    answer = [Found(row(10), []) for _ in keys]
                case FindSettledMany(_, keys):
                    answer = [Ending(None) for _ in keys]
                case _:
                    answer = 0
    except StopIteration:
        return asked, True
    except ClosedForGood:
        return asked, False


@pytest.mark.parametrize("answer", [Offered.SILENT, Offered.NOT_NOW])
def test_what_was_carried_is_not_written_beside_a_holder_who_does_not_say_whether_he_has_it(answer: Offered) -> None:
    """He may have read it, and its second row would come when the first one was acked and is forgotten."""
    asked, is_done = carried_to({HERE: answer})
    assert not is_done
    assert [type(each) for each in asked] == [AppendRows, OfferRows]


def test_what_was_carried_to_others_does_not_wait_for_a_silent_holder() -> None:
    there = Partition(TIME_SCOPE, 0, 1)
    asked, is_done = carried_to({HERE: Offered.SILENT, there: Offered.BELOW_FLOOR})
    assert not is_done
    [mark] = [mark for each in asked if isinstance(each, SetMarks) for mark in each.marks]
    assert (mark.partition, mark.kind) == (there, MarkKind.FORWARD)
    assert [each.messages[0].groups[0][0].shard for each in asked if is_append(each)] == [0, 1]


def test_what_was_carried_where_nobody_holds_the_place_is_written_again() -> None:
    """Whoever is to hold it may be waiting for this bucket to be over."""
    asked, is_done = carried_to({HERE: None})
    assert is_done
    assert any(isinstance(each, SetMarks) for each in asked)


def test_what_verified_has_passed_is_not_offered_with_what_its_holder_may_have_taken_in() -> None:
    """He would refuse all of it, and what he is working on would be written beside that."""
    rows = concat([row(position_ms) for position_ms in (10, 1_500)])
    procedure = insert_carried(Append(((HERE, rows),)), 500)
    next(procedure)
    offer = procedure.send([Appended({HERE: Control(1, "me", "", 2_000, 1_000).to_bytes()}, {}, frozenset(), None)])
    assert isinstance(offer, OfferRows)
    assert [key.position_ms for key in offer.rows.keys()] == [1_500]
    again = procedure.send(Offered.ADOPTED)
    assert isinstance(again, Find)
    assert [position_ms for position_ms, _ in again.keys] == [10]


def ended_before(answer: Asked | None) -> tuple[list[object], bool]:
    """Rows to two places, of which the first has a mark that goes along: what is asked for, and whether it was done."""
    there = Partition(TIME_SCOPE, 0, 1)
    given = Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.ACKED, b"r")
    procedure = insert_carried(Append(((HERE, row(10)), (there, row(10)))), 500, [given])
    asked: list[object] = []
    said: object = None
    try:
        while True:
            request = procedure.send(said)
            asked.append(request)
            match request:
                case AppendRows(messages):
                    said = [Appended({}, {}, frozenset(), None) for _ in messages]
                case AskToEnd():
                    said = HolderAnswer(answer)
                case _:
                    said = None
    except StopIteration:
        return asked, True
    except ClosedForGood:
        return asked, False


@pytest.mark.parametrize("answer", [None, Asked.UNKNOWN])
def test_what_was_ended_where_it_was_is_marked_and_told_where_it_goes_before_its_row_is_there(
    answer: Asked | None,
) -> None:
    """By a key that is below every floor: the holder ends no row by it that is not there yet."""
    asked, is_done = ended_before(answer)
    assert is_done
    marked, told, written, _ = asked
    assert marked == SetMarks([Mark(HERE, RowKey(10, DIGEST, 1), MarkKind.ACKED, b"r")])
    assert told == AskToEnd(HERE, RowKey(-1, DIGEST, 1), Outcome.ACKED, b"r")
    assert is_append(written)
    assert [partition.shard for partition, _ in written.messages[0].groups] == [0, 1]


def test_its_row_waits_for_a_holder_who_does_not_answer_and_the_others_do_not() -> None:
    asked, is_done = ended_before(Asked.SILENT)
    assert not is_done
    written = [each for each in asked if is_append(each)]
    assert [partition.shard for each in written for partition, _ in each.messages[0].groups] == [1]
