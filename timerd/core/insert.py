"""Insert (protocol section 4): write the row, *then* look at `closing`, and only then say OK.

A row at or after `closing` will be scanned; below it only the holder can say that it takes the row in; else it is
written again later, and the abandoned row gets a FORWARD mark, which look-ups follow. Whoever reads `closing` before
the write loses a task (tests/models/closing.pml, READFIRST).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from timerd.core.holding import Offered
from timerd.core.procedures import AppendRows, HintRows, OfferRows, Procedure, SetMarks
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control
from timerd.model.rows import RowGroup
from timerd.model.storage import Append, Appended, Mark, MarkKind

MAX_ROUNDS = 5


class ClosedForGood(Exception):
    """The row could not be placed: each place was closed before it was known to be taken in."""


@dataclass(slots=True)
class Inserted:
    """`repeated`: the reply of the first time. `moved`: (old position, digest) -> position, for rows written again."""

    repeated: bytes | None = None
    moved: dict[tuple[int, bytes], int] = field(default_factory=dict)


def insert(message: Append, now_ms: int) -> Procedure[Inserted]:
    """Places all rows of the message. Raises ClosedForGood (nothing acknowledged) after MAX_ROUNDS."""
    done = Inserted()
    for _ in range(MAX_ROUNDS):
        appended: Appended = (yield AppendRows([message]))[0]
        if appended.repeated is not None:
            return Inserted(repeated=appended.repeated)
        refused, hints = yield from _look(message, appended)
        if hints:
            yield HintRows(hints)
        if not refused:
            return done
        message = yield from _write_again(refused, appended, now_ms, done)
    raise ClosedForGood


Placed = tuple[Partition, RowGroup, int]


def _look(message: Append, appended: Appended) -> Procedure[tuple[list[Placed], list[Placed]]]:
    """(rows to write again, rows to hint), by the control facts that were read after the write."""
    refused: list[Placed] = []
    hints: list[Placed] = []
    for partition, rows in message.groups:
        closing_ms = closing_of(partition, appended)
        source = appended.sources.get(partition, 0)
        below = rows.columns["position_ms"] < closing_ms
        if bool(below.any()):
            early = rows.select(np.flatnonzero(below))
            answer = yield OfferRows(partition, early, source)
            if answer not in (Offered.ADOPTED, Offered.ALREADY_HAVE):
                refused.append((partition, early, closing_ms))
        open_rows = rows.select(np.flatnonzero(~below))
        if len(open_rows):
            hints.append((partition, open_rows, source))
    return refused, hints


def closing_of(partition: Partition, appended: Appended) -> int:
    """Without a control row a bucket is open, unless it is being finished."""
    stored = appended.controls.get(partition)
    if stored is not None:
        return Control.from_bytes(stored).closing_ms
    return partition.end_ms if partition in appended.finishing else partition.bucket_ms


def _write_again(refused: Sequence[Placed], appended: Appended, now_ms: int, done: Inserted) -> Procedure[Append]:
    """The same rows at a position that is not closed; the abandoned ones point there."""
    groups: dict[Partition, RowGroup] = {}
    marks: list[Mark] = []
    for partition, rows, closing_ms in refused:
        position_ms = max(now_ms, closing_ms)
        target = Partition(TIME_SCOPE, bucket_of(position_ms), partition.shard)
        for key in rows.keys():
            marks.append(Mark(partition, key, MarkKind.FORWARD, b"%d" % position_ms))
            done.moved[(key.position_ms, key.digest)] = position_ms
        moved = rows.compact()
        moved.columns["position_ms"] = position_ms
        groups[target] = moved
    yield SetMarks(marks)
    return Append(tuple(groups.items()))
