"""Carry: the one way a task leaves its row alive (protocol section 4).

Retry, guard, hand-over and backlog all write the row again, elsewhere or later; the settle record goes first, so a
holder that dies in between is completed by the next one from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from timerd.core.taken import Again, QueueKey
from timerd.model.attempts import FailedAttempt, with_attempt
from timerd.model.identity import RowKey, attempt_of, next_attempt
from timerd.model.ordering import OnFailure
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import FLAG_CARRIED, FLAG_LATE, FLAG_ORDERED, FLAGS_OF_TASK, RowGroup
from timerd.model.settle import Carry, CarryReason
from timerd.model.task import NO_EXTRA, Extra

OnFailureOf = Callable[[QueueKey], OnFailure]
# Kept of an error: enough for a traceback's end, little enough for a row.
ERROR_CHARACTERS = 16_384
# From here on a carry says what the new row has that others of its group may not have.
_OF_ROW = Carry._fields.index("version")


def retry_carry(partition: Partition, again: Again) -> Carry:
    """The next attempt, in the time partition of its position and with the same shard index."""
    target = _time_partition(bucket_of(again.position_ms), partition.shard)
    version = next_attempt(again.key.version)
    error = again.last_error[-ERROR_CHARACTERS:]
    failed = (0, again.failed_at_ms, error, again.end, again.sent_ms, again.worker, again.progress)
    return Carry(again.key, CarryReason.RETRY, target, again.position_ms, version, *failed)


@lru_cache(maxsize=64)
def _time_partition(bucket_ms: int, shard: int) -> Partition:
    return Partition(TIME_SCOPE, bucket_ms, shard)


def guard_carry(
    partition: Partition, key: RowKey, lease_until_ms: int, now_ms: int, reason: CarryReason, *, was_sent: bool
) -> Carry:
    """Still with a worker: comes back when the lease ends, unless it is extended or acknowledged by then. The row of an
    attempt that was never sent goes on as the same attempt, at a later position."""
    version = next_attempt(key.version) if was_sent else key.version
    position_ms = max(lease_until_ms, now_ms + 1, key.position_ms)
    target = Partition(TIME_SCOPE, bucket_of(position_ms), partition.shard)
    return Carry(key, reason, target, position_ms, version, lease_until_ms)


def in_place(rows: RowGroup, row: int, source: Partition, carry: Carry, on_failure: OnFailureOf) -> Carry:
    """A row of an ordering key keeps its place (rule O5): a retry is sent later from there, unless the others of the
    key pass it (rule F4). At the lag limit it goes to its queue's backlog, at the same position; other carries leave it
    where it is."""
    if not int(rows.columns["flags"][row]) & FLAG_ORDERED:
        return carry
    template = rows.template_of(row)
    queue = QueueKey(template.namespace, template.queue)
    if carry.reason is CarryReason.RETRY and on_failure(queue) is OnFailure.PASS and not _is_head(rows, row):
        return carry
    target = backlog_of(rows.one(row), source) if carry.reason is CarryReason.GUARD else source
    # Who holds its key shard next does not know of the lease by itself.
    is_late = carry.reason is CarryReason.RETRY or source.is_of_keys
    due_ms = carry.position_ms if is_late else 0
    return carry._replace(target=target, position_ms=carry.source.position_ms, not_before_ms=due_ms)


def _is_head(rows: RowGroup, row: int) -> bool:
    """Whether it was redriven to the head of its key, and the others wait for its end."""
    return rows.extra_of(row).order_position_ms >= 0


def carried_row(rows: RowGroup, row: int, source: Partition, carry: Carry) -> RowGroup:
    """The row that `carry` speaks of, made from the one that it leaves."""
    return carried_rows(rows.one(row), source, [carry])


def carried_rows(rows: RowGroup, source: Partition, carries: Sequence[Carry]) -> RowGroup:
    """As `carried_row` for each row of a group. A worker that dies leaves tens of thousands, so they stay one group."""
    own = rows.compact()
    columns = own.columns
    extras, columns["extra"] = _carried_extras(own, source, carries)
    columns["position_ms"] = [carry.position_ms for carry in carries]
    columns["version"] = [carry.version for carry in carries]
    columns["flags"] = FLAG_CARRIED | columns["flags"] & (FLAG_LATE | FLAGS_OF_TASK)
    return RowGroup(columns, own.prefixes, own.templates, own.payloads, extras)


def _carried_extras(rows: RowGroup, source: Partition, carries: Sequence[Carry]) -> tuple[list[Extra], list[int]]:
    """The distinct ones, and for each row which it has, counted from 1: most rows of a group have the same."""
    places: dict[tuple[object, ...], int] = {}
    extras: list[Extra] = []
    of_row: list[int] = []
    for before, carry in zip(rows.columns["extra"].tolist(), carries, strict=True):
        kind = before, carry.source.position_ms, *carry[_OF_ROW:]
        at = places.get(kind)
        if at is None:
            extras.append(_carried_extra(rows.extras[before - 1] if before else NO_EXTRA, source, carry))
            at = places[kind] = len(extras)
        of_row.append(at)
    return extras, of_row


def _carried_extra(extra: Extra, source: Partition, carry: Carry) -> Extra:
    if extra.home_position_ms < 0 and (carry.target, carry.position_ms) != (source, carry.source.position_ms):
        extra = replace(extra, home_position_ms=carry.source.position_ms, home_shard=source.shard)
    history = history_with(extra.history, carry) if carry.reason is CarryReason.RETRY else extra.history
    error, progress = carry.last_error or extra.last_error, carry.progress or extra.progress
    notes = replace(extra, last_error=error, history=history, progress=progress)
    return replace(notes, lease_until_ms=carry.lease_until_ms, not_before_ms=carry.not_before_ms)


def history_with(history: str, carry: Carry) -> str:
    """The attempt that failed is the one before that of the new row, whichever row is left."""
    number = attempt_of(carry.version) - 1
    failed = FailedAttempt(number, carry.sent_ms, carry.failed_at_ms, carry.end, carry.worker, carry.last_error)
    return with_attempt(history, failed)


def backlog_of(rows: RowGroup, home: Partition) -> Partition:
    """Where rows of one queue wait for a worker: same position, digest and shard, in the queue's own scope."""
    return Partition(rows.template_of(0).scope, home.bucket_ms, home.shard)
