"""Insert (protocol section 4): write the row, *then* look at `closing`, and only then say OK.

A row at or after `closing` will be scanned; below it only the holder can say that it takes the row in; else it is
written again later, and the abandoned row gets a FORWARD mark, which look-ups follow. Whoever reads `closing` before
the write loses a task (tests/models/closing.pml, READFIRST). Far ahead nobody holds anything: of a message's far rows
only those are looked at one by one whose partition turned out to have a control row or the finishing flag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from timerd.core.holding import Offered
from timerd.core.procedures import (
    AppendRows,
    AskToEnd,
    Ending,
    Find,
    FindSettledMany,
    HintRows,
    OfferRows,
    Procedure,
    SetMarks,
)
from timerd.core.rows_in_hand import VERDICTS
from timerd.core.ties import tie
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control
from timerd.model.rows import RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Appended, Found, Mark, MarkKind

MAX_ROUNDS = 5


class ClosedForGood(Exception):
    """The row could not be placed: each place was closed before it was known to be taken in."""


@dataclass(slots=True)
class Inserted:
    """`repeated`: the reply of the first time. `moved`: (old position, digest) -> position, for rows written again."""

    repeated: bytes | None = None
    moved: dict[tuple[int, bytes], int] = field(default_factory=dict)
    # The reverse, for rows that are written again more than once.
    _first: dict[tuple[int, bytes], int] = field(default_factory=dict)

    def note(self, key: RowKey, position_ms: int) -> None:
        first_ms = self._first.pop((key.position_ms, key.digest), key.position_ms)
        self.moved[first_ms, key.digest] = position_ms
        self._first[position_ms, key.digest] = first_ms


def insert(
    message: Append, now_ms: int, *, is_repeat: bool = False, anchors: Mapping[int, int] | None = None
) -> Procedure[Inserted]:
    """Places all rows of the message. Raises ClosedForGood (nothing acknowledged) after MAX_ROUNDS new places.
    `anchors`: bucket -> shard of instants whose buckets are over; None: a repeat of the call writes nothing, or this
    writes no call's rows."""
    done = Inserted()
    left = MAX_ROUNDS
    shards = dict(anchors or ())
    while left:
        if anchors is not None and not (yield from tie(message.groups, shards)):
            raise ClosedForGood
        appended: Appended = (yield AppendRows([message]))[0]
        if appended.repeated is not None:
            return Inserted(repeated=appended.repeated)
        refused, hints = yield from _look(message, appended, is_repeat=is_repeat)
        if hints and not is_repeat:
            yield HintRows(hints, appended.controls)
        if not refused:
            return done
        shards.update((partition.bucket_ms, partition.shard) for partition, _, _ in refused)
        message, is_new = yield from _write_again(refused, now_ms, done)
        if not message.groups:
            return done
        # Where an earlier try pointed to is no new place: there may be any number of them.
        left -= is_new
    raise ClosedForGood


def insert_repeated(message: Append, now_ms: int) -> Procedure[None]:
    """A repeat finds its rows stored, but whoever stored them may have ended before it knew that they were taken in:
    what was written below `verified` is read by nobody. So what has not ended goes the way of an insert once more. What
    is at or after `closing` is scanned in any case, and hinting it twice would fire it twice."""
    groups: list[tuple[Partition, RowGroup]] = []
    for partition, rows in message.groups:
        keys = rows.keys()
        found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
        endings: Sequence[Ending] = yield FindSettledMany(partition, keys)
        left = [n for n, ending in enumerate(endings) if ending.outcome in (None, Outcome.FORWARDED)]
        stored = [n for n in left if len(found[n].rows)]
        if stored:
            groups.append((partition, rows.select(np.array(stored, dtype=np.intp)).compact()))
    if groups:
        yield from insert(Append(tuple(groups)), now_ms, is_repeat=True)


Placed = tuple[Partition, RowGroup, int]


def _look(message: Append, appended: Appended, *, is_repeat: bool) -> Procedure[tuple[list[Placed], list[Placed]]]:
    """(rows to write again, rows to hint), by the control facts that were read after the write. What was stored before
    may have been acknowledged: it is written again only where it is sure that nobody will read it in its place, for
    between the FORWARD mark and the new row there may be a crash."""
    refused: list[Placed] = []
    hints: list[Placed] = []
    for partition, rows in (*message.groups, *_noted(message, appended)):
        closing_ms = closing_of(partition, appended)
        source = appended.sources.get(partition, 0)
        if closing_ms <= partition.bucket_ms:
            hints.append((partition, rows, source))
            continue
        below = rows.columns["position_ms"] < closing_ms
        if bool(below.any()):
            early = rows.select(np.flatnonzero(below))
            answer = yield OfferRows(partition, early, source, is_repeat, appended.controls.get(partition))
            if is_repeat and (
                answer is Offered.NOT_NOW or (answer is None and _will_be_read(partition, early, appended))
            ):
                raise ClosedForGood
            if answer not in (Offered.ADOPTED, Offered.ALREADY_HAVE):
                refused.append((partition, early, closing_ms))
        open_rows = rows.select(np.flatnonzero(~below))
        if len(open_rows):
            hints.append((partition, open_rows, source))
    return refused, hints


def _noted(message: Append, appended: Appended) -> list[tuple[Partition, RowGroup]]:
    """Of the far rows those that are not simply open."""
    spread = message.spread
    if spread is None:
        return []
    noted = (appended.controls.keys() | appended.finishing) - {partition for partition, _ in message.groups}
    return [(partition, spread.part(partition)) for partition in sorted(noted)]


def closing_of(partition: Partition, appended: Appended) -> int:
    """Without a control row a bucket is open, unless it is being finished."""
    stored = appended.controls.get(partition)
    if stored is not None:
        return Control.from_bytes(stored).closing_ms
    return partition.end_ms if partition in appended.finishing else partition.bucket_ms


def _will_be_read(partition: Partition, rows: RowGroup, appended: Appended) -> bool:
    """By the next holder."""
    stored = appended.controls.get(partition)
    control = Control.from_bytes(stored) if stored is not None else None
    newest_ms = int(rows.columns["position_ms"].max())
    return control is not None and not control.finished and newest_ms >= control.verified_ms


def _write_again(refused: Sequence[Placed], now_ms: int, done: Inserted) -> Procedure[tuple[Append, bool]]:
    """The same rows at a position that is not closed; the abandoned ones point there. A repeat (of a carry, by a later
    holder) goes where the first one pointed, and ends where the row was over already. And whether any place is new."""
    groups: dict[Partition, list[RowGroup]] = defaultdict(list)
    marks: list[Mark] = []
    is_new = False
    for partition, rows, closing_ms in refused:
        forwards, over = yield from _before(partition, rows)
        for n, key in enumerate(rows.keys()):
            if over[n]:
                continue
            pointed_ms = forwards[n]
            is_new |= pointed_ms is None
            position_ms = max(now_ms, closing_ms) if pointed_ms is None else pointed_ms
            marks.append(Mark(partition, key, MarkKind.FORWARD, b"%d" % position_ms))
            done.note(key, position_ms)
            moved = rows.one(n)
            moved.columns["position_ms"] = position_ms
            groups[Partition(TIME_SCOPE, bucket_of(position_ms), partition.shard)].append(moved)
    if marks:
        yield SetMarks(marks)
        yield from _take_verdicts_along(marks)
    return Append(tuple((partition, concat(parts)) for partition, parts in groups.items())), is_new


def _take_verdicts_along(forwards: Sequence[Mark]) -> Procedure[None]:
    """A carried row is looked for, and cancelled, where it is being written. Who marked that place before it pointed
    elsewhere has been answered, so the mark is repeated where it points to; who comes later follows it."""
    for partition in dict.fromkeys(mark.partition for mark in forwards):
        here = [mark for mark in forwards if mark.partition == partition]
        found: Sequence[Found] = yield Find(partition, [(mark.key.position_ms, mark.key.digest) for mark in here])
        for forward, place in zip(here, found, strict=True):
            given = [m for m in place.marks if m.kind in VERDICTS and m.key == forward.key]
            if given:
                yield from _end_at(forward, given)


def _end_at(forward: Mark, given: Sequence[Mark]) -> Procedure[None]:
    position_ms = int(forward.value)
    target = Partition(TIME_SCOPE, bucket_of(position_ms), forward.partition.shard)
    key = forward.key._replace(position_ms=position_ms)
    yield SetMarks([Mark(target, key, mark.kind, mark.value) for mark in given])
    yield AskToEnd(target, key, VERDICTS[given[0].kind], given[0].value)


def _before(partition: Partition, rows: RowGroup) -> Procedure[tuple[list[int | None], list[bool]]]:
    """For each row where an earlier writer pointed it to, and whether it has ended in its own place."""
    keys = rows.keys()
    found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
    endings: Sequence[Ending] = yield FindSettledMany(partition, keys)
    values = [
        next((int(m.value) for m in place.marks if m.kind == MarkKind.FORWARD and m.key == key), None)
        for key, place in zip(keys, found, strict=True)
    ]
    over = [ending.outcome not in (None, Outcome.FORWARDED) for ending in endings]
    return values, over
