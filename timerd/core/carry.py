"""Carry: the one way a task leaves its row alive (protocol section 4).

Retry, guard, hand-over and backlog all write the row again, elsewhere or later; the settle record goes first, so a
holder that dies in between is completed by the next one from the record.
"""

from __future__ import annotations

from dataclasses import replace

from timerd.core.taken import Again
from timerd.model.identity import RowKey, next_attempt
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import FLAG_CARRIED, FLAG_LATE, RowGroup, single_row
from timerd.model.settle import Carry, CarryReason

# Kept of an error: enough for a traceback's end, little enough for a row.
ERROR_CHARACTERS = 16_384


def retry_carry(partition: Partition, again: Again) -> Carry:
    """The next attempt, in the time partition of its position and with the same shard index."""
    target = Partition(TIME_SCOPE, bucket_of(again.position_ms), partition.shard)
    version = next_attempt(again.key.version)
    error = again.last_error[-ERROR_CHARACTERS:]
    return Carry(again.key, CarryReason.RETRY, target, again.position_ms, version, 0, again.failed_at_ms, error)


def guard_carry(
    partition: Partition, key: RowKey, lease_until_ms: int, now_ms: int, reason: CarryReason, *, was_sent: bool
) -> Carry:
    """Still with a worker: comes back when the lease ends, unless it is extended or acknowledged by then. The row of an
    attempt that was never sent goes on as the same attempt, at a later position."""
    version = next_attempt(key.version) if was_sent else key.version
    position_ms = max(lease_until_ms, now_ms + 1, key.position_ms)
    target = Partition(TIME_SCOPE, bucket_of(position_ms), partition.shard)
    return Carry(key, reason, target, position_ms, version, lease_until_ms)


def carried_row(rows: RowGroup, row: int, source: Partition, carry: Carry) -> RowGroup:
    """The row that `carry` speaks of, made from the one that it leaves."""
    extra = rows.extra_of(row)
    if extra.home_position_ms < 0:
        extra = replace(extra, home_position_ms=carry.source.position_ms, home_shard=source.shard)
    extra = replace(extra, lease_until_ms=carry.lease_until_ms, last_error=carry.last_error or extra.last_error)
    key = RowKey(carry.position_ms, carry.source.digest, carry.version)
    flags = FLAG_CARRIED | int(rows.columns["flags"][row]) & FLAG_LATE
    fire_at_ms = int(rows.columns["fire_at_ms"][row])
    return single_row(key, fire_at_ms, rows.template_of(row), rows.payload(row), extra, flags)


def backlog_of(rows: RowGroup, home: Partition) -> Partition:
    """Where rows of one queue wait for a worker: same position, digest and shard, in the queue's own scope."""
    return Partition(rows.template_of(0).scope, home.bucket_ms, home.shard)
