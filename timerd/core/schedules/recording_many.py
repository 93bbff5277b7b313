"""Records of many ticks at once, each fenced by what was read of its own schedule (W1): a compare-and-set each, THEN
the rows of those that were applied, THEN their next ticks. What goes together is the trip to the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from timerd.core.protocol import Procedure, TryCasMany
from timerd.core.schedules.chain import tick_of
from timerd.core.schedules.occurrences import tick_row, window_rows
from timerd.core.schedules.world import OccurrenceRow, World, place_rows
from timerd.model.registers import RegisterKey
from timerd.model.schedules import Definition, Schedule, Tick
from timerd.model.storage import Cas, CasResult, CasStatus

# What rows take in one append.
MOST_BYTES = 1 << 20
ROW_BYTES = 256


class ReadTick(NamedTuple):
    """A tick whose record is the next one, and the register by whose whole value that is fenced."""

    tick: Tick
    key: RegisterKey
    entry: Schedule
    stored: bytes
    definition: Definition


class RecordedTick(NamedTuple):
    """The record of a tick, which its rows follow from."""

    read: ReadTick
    entry: Schedule

    @property
    def change(self) -> Cas:
        return Cas(self.read.key, self.read.stored, self.entry.to_bytes())


def record_many(planned: Sequence[RecordedTick], world: World) -> Procedure[list[RecordedTick]]:
    """Those that were applied."""
    if not planned:
        return []
    results: Sequence[CasResult] = yield TryCasMany([each.change for each in planned])
    said = zip(planned, results, strict=True)
    applied = [each for each, result in said if result.status is CasStatus.APPLIED]
    for each in applied:
        world.recorded(each.read.entry, each.entry)
    return applied


def complete_many(applied: Sequence[RecordedTick], world: World) -> Procedure[None]:
    """The rows of each, THEN its next tick."""
    for rows in _in_parts(applied):
        yield from place_rows(rows, world)
    yield from place_rows([_next_tick(each) for each in applied if each.entry.tick], world)


def _in_parts(applied: Sequence[RecordedTick]) -> Iterator[list[OccurrenceRow]]:
    """The rows of all windows, so much at a time."""
    part: list[OccurrenceRow] = []
    size_bytes = 0
    for read, entry in applied:
        for row in window_rows(read.tick.schedule_id, entry, read.definition):
            part.append(row)
            size_bytes += ROW_BYTES + len(read.definition.payload)
            if size_bytes >= MOST_BYTES:
                yield part
                part, size_bytes = [], 0
    if part:
        yield part


def _next_tick(recorded: RecordedTick) -> OccurrenceRow:
    tick = recorded.read.tick
    return tick_row(tick_of(tick.namespace, tick.schedule_id, recorded.entry), *recorded.entry.tick)
