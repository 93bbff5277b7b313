"""Rows that say the same task once more, in another bucket: each leads to the others, so that a cancel or a move meets
them all.

A call that is repeated after an unknown outcome writes a task that is due by then where it is by then (guarantee G2).
Within a partition its holder sees to the copies (core/copies.py); in another bucket nobody knows of the first row, and
only one of the ids was told to the caller. So before a row is written in another bucket than its own instant's, a mark
at that instant (its anchor) names the new place, and a mark on the new place names the anchor; *then* the anchor is
read. A cancel marks the anchor, *then* reads it. So either the cancel finds the row, whether or not it is written yet,
or whoever writes it finds the cancel (tests/models/ties.pml). A move does the same (core/move.py,
tests/models/tied_moves.pml): the rows wait until it is decided. Only such rows pay for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from timerd.core.holding import Asked
from timerd.core.procedures import AskToEnd, AskToMove, Find, HolderAnswer, Procedure, SetMarks
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Place
from timerd.model.rows import WRITTEN_BY_HOLDERS, RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Found, Mark, MarkKind

ENDS = {MarkKind.CANCELLED: Outcome.CANCELLED, MarkKind.PURGED: Outcome.PURGED}
SHARD_BITS = 10
Groups = Sequence[tuple[Partition, RowGroup]]


@dataclass(frozen=True, slots=True)
class Tie:
    """Of a row at `place` whose instant is in an earlier bucket."""

    place: Place
    anchor: Place

    def marks(self) -> tuple[Mark, Mark]:
        """One anchor has a mark for each partition that it leads to: the version tells them apart."""
        (partition, key), anchor = (self.place.partition, self.place.key), self.anchor
        later = (partition.bucket_ms - anchor.partition.bucket_ms) // BUCKET_MS
        name = anchor.key._replace(version=later << SHARD_BITS | partition.shard)
        there = Mark(anchor.partition, name, MarkKind.TIED, _written(self.place))
        return there, Mark(partition, key, MarkKind.TIED, _written(anchor))


def tie(groups: Groups, shards: Mapping[int, int]) -> Procedure[bool]:
    """Before the rows are written. `shards`: bucket -> shard of the anchors; a row without one is not tied. False: the
    task was cancelled or moved, and who holds its new place did not hear of it."""
    if not shards:
        # All came in time, as nearly always: no row is looked at.
        return True
    ties = [each for partition, rows in groups for each in _ties(partition, rows, shards)]
    if not ties:
        return True
    yield SetMarks([mark for each in ties for mark in each.marks()])
    by_partition: dict[Partition, list[Tie]] = defaultdict(list)
    for each in ties:
        by_partition[each.anchor.partition].append(each)
    given: list[Mark] = []
    for partition, some in by_partition.items():
        found: Sequence[Found] = yield Find(partition, [(t.anchor.key.position_ms, t.anchor.key.digest) for t in some])
        given += [mark for each, anchor in zip(some, found, strict=True) for mark in _given(each.place, anchor.marks)]
    return (yield from _tell(given)) if given else True


def _tell(given: Sequence[Mark]) -> Procedure[bool]:
    """A holder takes in what he is told of, without the marks on it: so he is told of these."""
    yield SetMarks(given)
    for mark in given:
        key = unwritten(Place(mark.partition, mark.key))
        answer: HolderAnswer = yield _ask(mark, key)
        if answer.asked is Asked.SILENT:
            return False
    return True


def _ask(mark: Mark, key: RowKey) -> AskToEnd | AskToMove:
    if mark.kind is MarkKind.MOVED:
        return AskToMove(mark.partition, key)
    return AskToEnd(mark.partition, key, ENDS[mark.kind], mark.value)


def _ties(partition: Partition, rows: RowGroup, shards: Mapping[int, int]) -> Iterable[Tie]:
    columns = rows.columns
    is_first = (columns["version"] == 0) & ((columns["flags"] & WRITTEN_BY_HOLDERS) == 0)
    apart = np.flatnonzero(is_first & (columns["fire_at_ms"] < partition.bucket_ms)) if len(rows) else ()
    if not len(apart):
        return
    chosen = rows.select(np.asarray(apart))
    for fire_at_ms, key in zip(chosen.columns["fire_at_ms"].tolist(), chosen.keys(), strict=True):
        bucket_ms = bucket_of(fire_at_ms)
        if bucket_ms in shards:
            anchor = Place(Partition(TIME_SCOPE, bucket_ms, shards[bucket_ms]), RowKey(fire_at_ms, key.digest, 0))
            yield Tie(Place(partition, key), anchor)


def _given(place: Place, marks: Sequence[Mark]) -> list[Mark]:
    """On that place what the marks of its anchor say. What was moved from there fires only if `moves` says so."""
    for mark in marks:
        if mark.kind in ENDS:
            return [Mark(*_of(place), mark.kind, mark.value)]
        if mark.kind is MarkKind.ENDED_ELSEWHERE:
            return [Mark(*_of(place), MarkKind(mark.value[0]), mark.value[1:])]
    return [Mark(*_of(place), m.kind, m.value) for m in marks if m.kind is MarkKind.MOVED][:1]


def ended_elsewhere(place: Place, kind: MarkKind, request: bytes) -> Mark:
    """On the home of a task that lives on in another place and is ended there: for those of its copies that are written
    later."""
    return Mark(*_of(place), MarkKind.ENDED_ELSEWHERE, bytes((kind,)) + request)


def home_of(task: TaskId) -> Place:
    return Place(task.home, RowKey(task.position_ms, task.digest, 0))


def anchor_of(place: Place, fire_at_ms: int) -> Place | None:
    """Of a row that came late within its bucket, which has no mark that leads there."""
    if fire_at_ms == place.key.position_ms or bucket_of(fire_at_ms) != place.partition.bucket_ms:
        return None
    return Place(place.partition, place.key._replace(position_ms=fire_at_ms))


def end_marks(places: Sequence[Place], kind: MarkKind, request: bytes) -> list[Mark]:
    """Where it was written exactly may not be known. A holder goes by the marks of its partition for every row of the
    task, but begins to read where an earlier one had come to: so one is at its last instant, which all of them read."""
    lasts = (each.key._replace(position_ms=each.partition.end_ms - 1) for each in places)
    at = [(each.partition, key) for each, last in zip(places, lasts, strict=True) for key in (each.key, last)]
    return [Mark(partition, key, kind, request) for partition, key in dict.fromkeys(at)]


def unwritten(place: Place) -> RowKey:
    """By which a holder is told of a task where no row of it is found: he remembers the task's end, and ends no row by
    it that is not there. Its position is below every floor."""
    return place.key._replace(position_ms=place.partition.bucket_ms - 1)


def tied_to(marks: Iterable[Mark]) -> list[Place]:
    return [_read(mark) for mark in marks if mark.kind is MarkKind.TIED]


def _of(place: Place) -> tuple[Partition, RowKey]:
    return place.partition, place.key


def _written(place: Place) -> bytes:
    return b"%d %d" % (place.key.position_ms, place.partition.shard)


def _read(mark: Mark) -> Place:
    position_ms, shard = map(int, mark.value.split())
    return Place(Partition(TIME_SCOPE, bucket_of(position_ms), shard), RowKey(position_ms, mark.key.digest, 0))
