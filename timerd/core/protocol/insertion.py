"""Insert (protocol section 4): write the row, *then* look at `closing`, and only then say OK.

A row at or after `closing` will be scanned; below it only the holder can say that it takes the row in; else it is
written again later, and the abandoned row gets a FORWARD mark, which look-ups follow. An insert that reads `closing`
before the write loses a task (tests/models/closing.pml, READFIRST). Far ahead nobody holds anything: of a message's far
rows only those are looked at one by one whose partition turned out to have a control row or the finishing flag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from timerd.core.partition import Asked, Offered
from timerd.core.protocol.lookup import unwritten, written_again
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    Ending,
    Find,
    FindSettledMany,
    HintRows,
    HolderAnswer,
    OfferRows,
    Procedure,
    SetMarks,
)
from timerd.model.errors import StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.outcomes import outcome_of
from timerd.model.partition import Partition
from timerd.model.registers import Control, Place
from timerd.model.rows import FLAG_CARRIED, RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Appended, Found, Mark, MarkKind

MAX_ROUNDS = 5
# Then the next holder reads what is at or after `verified`.
NOBODY = (None, Offered.SILENT)


class ClosedForGood(Exception):
    """The row could not be placed: each place was closed before it was known to be taken in, or who may have taken it
    in does not say so."""


@dataclass(slots=True)
class Inserted:
    """`repeated`: the reply of the first time. `moved`: (old position, digest) -> position, for rows written again.
    `is_open`: of some that were carried the holder did not say whether it has them."""

    repeated: bytes | None = None
    moved: dict[tuple[int, bytes], int] = field(default_factory=dict)
    is_open: bool = False
    # The reverse, for rows that are written again more than once.
    _first: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def note(self, key: RowKey, position_ms: int) -> None:
        first_ms = self._first.pop((key.position_ms, key.digest), key.position_ms)
        self.moved[first_ms, key.digest] = position_ms
        self._first[position_ms, key.digest] = first_ms


def insert(
    message: Append,
    now_ms: int,
    *,
    is_repeat: bool = False,
    is_carry: bool = False,
) -> Procedure[Inserted]:
    """Places all rows of the message. Raises ClosedForGood (nothing acknowledged) after MAX_ROUNDS new places. Calls
    whose store does not know them when they come again go by core/protocol/message_place.py."""
    done = Inserted()
    left = MAX_ROUNDS
    while left:
        appended: Appended = (yield AppendRows([message]))[0]
        if appended.repeated is not None:
            return Inserted(repeated=appended.repeated)
        refused, hints, is_open = yield from _look(message, appended, is_repeat=is_repeat, is_carry=is_carry)
        done.is_open |= is_open
        if hints and not is_repeat:
            yield HintRows(hints, appended.controls)
        if not refused:
            return done
        message, is_new, follows = yield from _write_again(refused, now_ms, done)
        if not message.groups:
            return done
        # The insert that pointed there may have been acknowledged.
        is_repeat |= follows
        # Where an earlier try pointed to is no new place: there may be any number of them.
        left -= is_new
    raise ClosedForGood


def insert_carried(message: Append, now_ms: int, given: Sequence[Mark] = ()) -> Procedure[None]:
    """Rows that were carried here have their record, so nothing presses (rule K1): they are not written beside a holder
    who may have taken them in, and fire them, while it does not answer. Raises ClosedForGood, and is to be repeated,
    until it does or has a successor; what goes to others does not wait for that. `given`: marks on these rows, durable
    and known to the holder of the place before it can meet a row."""
    silent = (yield from _tell_before(given)) if given else frozenset()
    groups = tuple(group for group in message.groups if group[0] not in silent)
    done = (yield from insert(Append(groups), now_ms, is_carry=True)) if groups else Inserted()
    if silent or done.is_open:
        raise ClosedForGood("who holds the place does not say whether it has the rows")


def _tell_before(given: Sequence[Mark]) -> Procedure[Set[Partition]]:
    """The places whose holders did not hear of it."""
    yield SetMarks(given)
    silent: set[Partition] = set()
    for mark in given:
        outcome = outcome_of(mark)
        if outcome is None:
            continue
        key = unwritten(Place(mark.partition, mark.key))
        answer: HolderAnswer = yield AskToEnd(mark.partition, key, outcome, mark.value)
        if answer.asked is Asked.SILENT:
            silent.add(mark.partition)
    return silent


def insert_repeated(message: Append, now_ms: int) -> Procedure[Inserted]:
    """A repeat finds its rows stored, but the call that stored them may have ended before it knew that they were taken
    in: what was written below `verified` is read by nobody. So what has not ended goes the way of an insert once more.
    What is at or after `closing` is scanned in any case, and hinting it twice would fire it twice.

    What was written again the first time was answered with its later place, and so it is now: `moved` of the answer."""
    groups: list[tuple[Partition, RowGroup]] = []
    for partition, rows in message.groups:
        keys = rows.keys()
        found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
        endings: Sequence[Ending] = yield FindSettledMany(partition, keys)
        left = [n for n, ending in enumerate(endings) if ending.outcome in (None, Outcome.FORWARDED)]
        stored = [n for n in left if len(found[n].rows)]
        if stored:
            groups.append((partition, rows.select(np.array(stored, dtype=np.intp)).compact()))
    return (yield from insert(Append(tuple(groups)), now_ms, is_repeat=True)) if groups else Inserted()


Placed = tuple[Partition, RowGroup, int]


def _look(
    message: Append, appended: Appended, *, is_repeat: bool, is_carry: bool
) -> Procedure[tuple[list[Placed], list[Placed], bool]]:
    """(rows to write again, rows to hint, whether a holder has yet to say what it has), by the control facts that were
    read after the write. What was stored before may have been acknowledged: it is written again only where it is sure
    that nobody will read it in its place, for between the FORWARD mark and the new row there may be a crash."""
    refused: list[Placed] = []
    hints: list[Placed] = []
    is_open = False
    for partition, rows in (*message.groups, *noted(message, appended)):
        closing_ms = closing_of(partition, appended)
        source = appended.sources.get(partition, 0)
        if closing_ms <= partition.bucket_ms:
            hints.append((partition, rows, source))
            continue
        below = rows.columns["position_ms"] < closing_ms
        control = appended.controls.get(partition)
        early, passed = _early(rows, below, control) if bool(below.any()) else (None, None)
        if passed is not None:
            refused.append((partition, passed, closing_ms))
        if early is not None:
            answer = yield OfferRows(partition, early, source, is_repeat or is_carry, control)
            if is_carry and answer in (Offered.NOT_NOW, Offered.SILENT):
                is_open = True
            elif is_repeat and (answer is Offered.NOT_NOW or (answer in NOBODY and control is not None)):
                raise ClosedForGood
            elif answer not in (Offered.ADOPTED, Offered.ALREADY_HAVE):
                refused.append((partition, early, closing_ms))
        open_rows = rows.select(np.flatnonzero(~below))
        if len(open_rows):
            hints.append((partition, open_rows, source))
    return refused, hints, is_open


def _early(
    rows: RowGroup, below: npt.NDArray[np.bool_], stored: bytes | None
) -> tuple[RowGroup | None, RowGroup | None]:
    """Of the rows below `closing` those that the holder may take in, and those that `verified` has passed: nobody will
    read them. A holder who is offered one of these refuses all, also what it has taken in and is working on."""
    verified_ms = Control.from_bytes(stored).verified_ms if stored is not None else 0
    is_passed = rows.columns["position_ms"] < verified_ms
    early, passed = rows.select(np.flatnonzero(below & ~is_passed)), rows.select(np.flatnonzero(below & is_passed))
    return early if len(early) else None, passed if len(passed) else None


def noted(message: Append, appended: Appended) -> list[tuple[Partition, RowGroup]]:
    """Of the far rows those that are not simply open."""
    spread = message.spread
    if spread is None:
        return []
    noted = (appended.controls.keys() | appended.finishing) - {partition for partition, _ in message.groups}
    return [(partition, spread.part(partition)) for partition in sorted(noted)]


def is_simply_open(partition: Partition, appended: Appended) -> bool:
    """Whether a message of one row, which was written there just now, needs nothing more than to be hinted: by
    `insert`, and by `place_message` as well."""
    return appended.repeated is None and closing_of(partition, appended) <= partition.bucket_ms


def closing_of(partition: Partition, appended: Appended) -> int:
    """Without a control row a bucket is open, unless it is being finished."""
    stored = appended.controls.get(partition)
    if stored is not None:
        return Control.from_bytes(stored).closing_ms
    return partition.end_ms if partition in appended.finishing else partition.bucket_ms


def _write_again(refused: Sequence[Placed], now_ms: int, done: Inserted) -> Procedure[tuple[Append, bool, bool]]:
    """The same rows at a position that is not closed; the abandoned ones point there. And whether any place is new, and
    whether any is another writer's."""
    chosen, new = yield from _choose(refused, now_ms)
    if not chosen:
        return Append(()), False, False
    marks = [mark for mark, _ in chosen]
    yield SetMarks(marks)
    standing = yield from _standing(marks)
    moved = placed_again(zip(standing, (row for _, row in chosen), strict=True), done)
    return moved, not new.isdisjoint(standing), not new.issuperset(standing)


def _choose(refused: Sequence[Placed], now_ms: int) -> Procedure[tuple[list[tuple[Mark, RowGroup]], set[Mark]]]:
    """For each row its mark, and which of these name a new place. A repeat (of a carry, by a later holder) goes where
    the first one pointed, and ends where the row was over already."""
    chosen: list[tuple[Mark, RowGroup]] = []
    new: set[Mark] = set()
    for partition, rows, closing_ms in refused:
        forwards, over = yield from _before(partition, rows)
        flags = rows.columns["flags"]
        for n, key in enumerate(rows.keys()):
            if over[n]:
                continue
            own_ms = max(now_ms, closing_ms)
            if forwards[n] is None and flags[n] & FLAG_CARRIED:
                own_ms = yield from _free_ms(Place(partition, key), own_ms)
            mark = forwards[n] or Mark(partition, key, MarkKind.FORWARD, b"%d" % own_ms)
            chosen.append((mark, rows.one(n)))
            if forwards[n] is None:
                new.add(mark)
    return chosen, new


def _free_ms(place: Place, own_ms: int) -> Procedure[int]:
    """Where a row that was carried may be written again. The same attempt may have waited at that very instant, for the
    end of a lease, and was carried on from there: it has ended there, and its way would be a circle."""
    while True:
        target = written_again(place, own_ms)
        found: Sequence[Found] = yield Find(target.partition, [(target.key.position_ms, target.key.digest)])
        if target.key.version not in found[0].rows.columns["version"].tolist():
            return own_ms
        own_ms += 1


def placed_again(chosen: Iterable[tuple[Mark, RowGroup]], done: Inserted) -> Append:
    """Each row where its mark points to; `done` notes it."""
    groups: dict[Partition, list[RowGroup]] = defaultdict(list)
    for forward, row in chosen:
        target, key = _pointed(forward)
        done.note(forward.key, key.position_ms)
        row.columns["position_ms"] = key.position_ms
        groups[target].append(row)
    return Append(tuple((partition, concat(parts)) for partition, parts in groups.items()))


def _standing(forwards: Sequence[Mark]) -> Procedure[list[Mark]]:
    """The marks that count: a call and its repeat may choose at the same time, and of two marks the first one counts.
    On two ways the task would have rows in two places, and the later one may come when the earlier one has ended and
    is forgotten.

    A carried row is looked for, and cancelled, where it is being written. Who marked that place before it pointed
    elsewhere has been answered, so the mark is repeated where it points to; who comes later follows it."""
    standing: list[Mark] = []
    for own, place in (yield from _left(forwards)):
        forward = _forward_of(own.key, place) or own
        standing.append(forward)
        yield from _take_along(forward, place)
    return standing


def taken_along(forwards: Sequence[Mark]) -> Procedure[None]:
    """What was said of tasks at the places that they leave counts where these marks point to."""
    for own, place in (yield from _left(forwards)):
        yield from _take_along(own, place)


def _left(forwards: Sequence[Mark]) -> Procedure[list[tuple[Mark, Found]]]:
    """The places that have these marks."""
    left: list[tuple[Mark, Found]] = []
    for partition, marks in groupby(forwards, attrgetter("partition")):
        here = list(marks)
        found: Sequence[Found] = yield Find(partition, [(mark.key.position_ms, mark.key.digest) for mark in here])
        left += zip(here, found, strict=True)
    return left


def _take_along(forward: Mark, place: Found) -> Procedure[None]:
    given = [m for m in place.marks if outcome_of(m) is not None and m.key == forward.key]
    if given:
        yield from _end_at(forward, given)


def _end_at(forward: Mark, given: Sequence[Mark]) -> Procedure[None]:
    target, key = _pointed(forward)
    yield SetMarks([Mark(target, key, mark.kind, mark.value) for mark in given])
    first = outcome_of(given[0])
    assert first is not None
    answer: HolderAnswer = yield AskToEnd(target, key, first, given[0].value)
    if answer.asked is Asked.SILENT:
        # It would take the row in without its marks.
        raise StoreUnknown("The instance that holds the next place of an ended task does not answer.")


def _pointed(forward: Mark) -> tuple[Partition, RowKey]:
    place = written_again(Place(forward.partition, forward.key), int(forward.value))
    return place.partition, place.key


def _before(partition: Partition, rows: RowGroup) -> Procedure[tuple[list[Mark | None], list[bool]]]:
    """For each row where an earlier writer pointed it to, and whether it has ended in its own place."""
    keys = rows.keys()
    found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
    endings: Sequence[Ending] = yield FindSettledMany(partition, keys)
    forwards = [_forward_of(key, place) for key, place in zip(keys, found, strict=True)]
    over = [ending.outcome not in (None, Outcome.FORWARDED) for ending in endings]
    return forwards, over


def _forward_of(key: RowKey, place: Found) -> Mark | None:
    return next((m for m in place.marks if m.kind == MarkKind.FORWARD and m.key == key), None)
