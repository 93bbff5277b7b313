"""Recorded instants of a backfill as rows: ordinary tasks, named by backfill and instant."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.schedules.occurrences import PATIENT
from timerd.core.schedules.world import OccurrenceRow
from timerd.core.taken import BACKFILL_TICKS
from timerd.model.backfills import Backfill, BackfillName, BackfillTick, backfilled_id
from timerd.model.identity import MAC_BYTES, RowKey, TaskId, digest_of
from timerd.model.occurrences import Occurrence, Reason
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import single_row
from timerd.model.schedules import Definition, Slot, prefix_of
from timerd.model.task import Extra, Template


def backfill_prefix(entry: Backfill, instant_ms: int) -> bytes:
    return prefix_of("backfill", entry.uid, instant_ms)


def task_of_slot(entry: Backfill, slot: Slot, definition: Definition) -> TaskId:
    """Without its MAC, which is for callers."""
    template, prefix = definition.template, backfill_prefix(entry, slot.instant_ms)
    return TaskId(slot.place_ms, slot.shard, template.scope, template.priority, prefix, 0, bytes(MAC_BYTES))


def rows_of(
    name: BackfillName, entry: Backfill, chosen: Iterable[tuple[int, Slot]], definition: Definition
) -> list[OccurrenceRow]:
    """Of some slots of its record, by their numbers in it."""
    return [_row(name, entry, number, slot, definition) for number, slot in chosen]


def _row(name: BackfillName, entry: Backfill, number: int, slot: Slot, definition: Definition) -> OccurrenceRow:
    """It waits for a worker for ever: the policy of catching up says nothing of it."""
    prefix = backfill_prefix(entry, slot.instant_ms)
    said = Occurrence(
        name.schedule_id,
        backfilled_id(entry.schedule_uid, name.backfill_id, slot.instant_ms).hex(),
        slot.instant_ms,
        entry.ahead.before(number),
        Reason.BACKFILL,
        entry.revision,
    )
    key, extra = RowKey(slot.place_ms, digest_of(prefix, 0), 0), Extra(occurrence=said.to_text())
    row = single_row(key, slot.fire_at_ms, definition.template, definition.payload, extra, 0)
    return prefix, Partition(TIME_SCOPE, bucket_of(slot.place_ms), slot.shard), row


def backfill_tick_row(tick: BackfillTick, place_ms: int, shard: int) -> OccurrenceRow:
    template = Template(*BACKFILL_TICKS, retry=PATIENT)
    key = RowKey(place_ms, digest_of(tick.prefix, 0), 0)
    row = single_row(key, place_ms, template, tick.to_bytes(), Extra(), 0)
    return tick.prefix, Partition(TIME_SCOPE, bucket_of(place_ms), shard), row
