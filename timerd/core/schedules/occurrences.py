"""Recorded instants as rows: ordinary tasks, each with an identity that follows from schedule, revision and instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from timerd.core.recurrence import jittered_ms
from timerd.core.schedules.slot_tasks import slot_payload
from timerd.core.schedules.world import OccurrenceRow
from timerd.core.taken import TICKS
from timerd.model.cycles import CYCLE
from timerd.model.identity import MAC_BYTES, RowKey, TaskId, digest_of
from timerd.model.occurrences import Occurrence, Reason
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import FLAG_LATE, single_row
from timerd.model.schedules import (
    CatchUp,
    Definition,
    Policies,
    Recorded,
    Schedule,
    Slot,
    Tick,
    occurrence_id,
    prefix_of,
)
from timerd.model.task import NO_EXTRA, Extra, RetryPolicy, Template

# What is over for no longer is not missed where nothing is caught up.
GRACE_MS = 60_000
# A tick never dies.
# What is over for longer is caught up with.
OVER_MS = 1_000
PATIENT = RetryPolicy(max_attempts=1 << 30, max_backoff_ms=60_000, attempt_timeout_ms=600_000)
_OF_TICKS = Template(*TICKS, retry=PATIENT)


def row_prefix(uid: str, revision: int, slot: Slot) -> bytes:
    return prefix_of("row", uid, revision, slot.instant_ms)


def task_of(uid: str, revision: int, slot: Slot, template: Template) -> TaskId:
    """Without its MAC, which is for callers."""
    prefix = row_prefix(uid, revision, slot)
    return TaskId(slot.place_ms, slot.shard, template.scope, template.priority, prefix, 0, bytes(MAC_BYTES))


def rows_of(
    schedule_id: str, uid: str, recorded: Recorded, chosen: Iterable[tuple[int, Slot]], definition: Definition
) -> list[OccurrenceRow]:
    """Of some slots of a record, by their numbers in it."""
    return [_row(schedule_id, uid, recorded, number, slot, definition) for number, slot in chosen]


def _row(
    schedule_id: str, uid: str, recorded: Recorded, number: int, slot: Slot, definition: Definition
) -> OccurrenceRow:
    prefix = row_prefix(uid, recorded.revision, slot)
    reason = Reason.CATCH_UP if slot.place_ms > slot.fire_at_ms + OVER_MS else Reason.SCHEDULE
    payload = definition.payload
    if definition.cycle is not None:
        payload = slot_payload(schedule_id, uid, definition.cycle, slot.instant_ms)
    said = Occurrence(
        schedule_id.removeprefix(CYCLE),
        occurrence_id(uid, slot.instant_ms).hex(),
        slot.instant_ms,
        recorded.before(number),
        reason,
        recorded.revision,
        slot.missed,
    )
    expire_at_ms = expiry_ms(definition.policies, slot, _next_fires_ms(uid, recorded, number, definition))
    template = definition.template
    if template.expire_at_ms != expire_at_ms:
        template = replace(template, expire_at_ms=expire_at_ms)
    key = RowKey(slot.place_ms, digest_of(prefix, 0), 0)
    flags = FLAG_LATE if slot.is_catch_up else 0
    extra = Extra(occurrence=said.to_text())
    if definition.policies.overlap is not Overlap.ALLOW:
        extra = _told(extra, slot.place_ms, slot.shard)
    row = single_row(key, slot.fire_at_ms, template, payload, extra, flags)
    return prefix, Partition(TIME_SCOPE, bucket_of(slot.place_ms), slot.shard), row


def _next_fires_ms(uid: str, recorded: Recorded, number: int, definition: Definition) -> int:
    """Of the instant after a slot; 0: there is none. That after the last slot may have to fire earlier than is said
    here, before the one that follows it: of that one nothing is known yet."""
    if number + 1 < len(recorded.slots):
        return recorded.slots[number + 1].fire_at_ms
    return jittered_ms(definition.spec, bytes.fromhex(uid), recorded.next_ms) if recorded.next_ms else 0


def _told(extra: Extra, place_ms: int, shard: int) -> Extra:
    """Of a task whose id callers are told as soon as it is recorded: it keeps that id where its row comes too late for
    the place, and is written at a later one."""
    return replace(extra, home_position_ms=place_ms, home_shard=shard)


def expiry_ms(policies: Policies, slot: Slot, next_ms: int) -> int:
    """What waited for a worker for too long follows the policy of catching up as well; 0: it waits for ever. `next_ms`:
    when the next instant fires, its jitter included. At the instant itself nothing takes its place yet, and one that
    fires just before it would have no time at all. Where the next instant must not run beside it, the policy of
    overlaps says what becomes of that one."""
    if policies.catch_up is CatchUp.LATEST and policies.overlap is not Overlap.ALLOW:
        return 0
    if policies.catch_up is CatchUp.LATEST:
        return max(next_ms, slot.place_ms + 1) if next_ms else 0
    if policies.catch_up is CatchUp.NONE:
        return slot.place_ms + GRACE_MS
    begin_ms = slot.instant_ms if policies.overlap is Overlap.ALLOW else slot.place_ms
    return max(begin_ms + policies.window_ms, slot.place_ms + 1) if policies.window_ms else 0


def trigger_row(schedule_id: str, opened: OpenedOccurrence, definition: Definition) -> OccurrenceRow:
    prefix = bytes.fromhex(opened.prefix)
    said = Occurrence(schedule_id, opened.prefix, opened.instant_ms, 0, Reason.TRIGGER, opened.revision)
    key = RowKey(opened.place_ms, digest_of(prefix, 0), 0)
    extra = _told(Extra(occurrence=said.to_text()), opened.place_ms, opened.shard)
    row = single_row(key, opened.place_ms, definition.template, definition.payload, extra, 0)
    return prefix, Partition(TIME_SCOPE, bucket_of(opened.place_ms), opened.shard), row


def tick_row(tick: Tick, place_ms: int, shard: int) -> OccurrenceRow:
    prefix = tick.prefix
    key = RowKey(place_ms, digest_of(prefix, 0), 0)
    row = single_row(key, place_ms, _OF_TICKS, tick.to_bytes(), NO_EXTRA, 0)
    return prefix, Partition(TIME_SCOPE, bucket_of(place_ms), shard), row


def window_rows(schedule_id: str, entry: Schedule, definition: Definition) -> list[OccurrenceRow]:
    """Those of the last record."""
    return rows_of(schedule_id, entry.uid, entry.ahead, entry.window, definition)
