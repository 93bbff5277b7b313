"""Rows that were with a worker before, looked at once more when they are about to fire.

The earlier delivery may still be in hand: then the row is requeued to the end of the lease. If it is not, the attempt
that ended silently may have been the last one, or the task may have expired meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.dispatch.settlement import Failure, letter_of
from timerd.core.gates import ALL_MAY, DueBatch, End, Fate, Fates, Hold, Requeue
from timerd.model.attempts import AttemptEnd
from timerd.model.identity import RowKey, attempt_of
from timerd.model.ordering import is_ordered
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter

# What may not end yet is looked at again after this.
LOOK_MS = 10
# Whose lease ended while nobody could extend it, for its partition changed hands or its server was away, has so long to
# be heard of: a worker tries every 2 s at the least to connect again, and its home may have to tell another instance.
RETURN_MS = 5_000
GONE = "the lease ended: the worker that had the last attempt was not heard of again"


class RedeliveryGate:
    """A task that a worker has is not sent to another one (guarantee G5). `lease_of`: until when a worker has the
    delivery of a row, as far as is known; `return_ms`: a worker that has what was taken over with its lease, and has
    extended it since, is heard of within this time; `may_end`: whether that may be
    recorded of a task which has failed for good."""

    def __init__(
        self,
        guard: RedeliveryGuard,
        lease_of: Callable[[RowKey], int],
        secret: bytes,
        return_ms: int = RETURN_MS,
        may_end: Callable[[DeadLetter], bool] = lambda _: True,
    ) -> None:
        self._may_end = may_end
        self._guard = guard
        self._lease_of = lease_of
        self._secret = secret
        self._return_ms = return_ms

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        suspects = self._guard.suspects(batch.due, now_ms)
        if not len(suspects):
            return ALL_MAY
        fates: dict[int, Fate] = {}
        for row in suspects:
            if row not in batch.fates and (fate := self._fate(batch, row, now_ms)) is not None:
                fates[row] = fate
        return fates

    def _fate(self, batch: DueBatch, row: int, now_ms: int) -> Fate | None:
        rows, key = batch.due.rows, batch.key(row)
        template = rows.template_of(row)
        until_ms = _waits_until_ms(batch, row, self._lease_of(key), self._return_ms, now_ms)
        if until_ms > now_ms:
            return _waits(batch, row, until_ms)
        if attempt_of(key.version) > template.retry.max_attempts:
            failure = Failure(now_ms, rows.extra_of(row).last_error or GONE, end=AttemptEnd.LEASE_ENDED)
            attempts = attempt_of(key.version) - 1
            letter = letter_of(batch.due, row, key, attempts, failure, self._secret)
            return End(Outcome.DEAD, letter) if self._may_end(letter) else Hold(now_ms + LOOK_MS)
        if 0 < rows.expiry_ms(row) <= now_ms:
            return End(Outcome.EXPIRED)
        return None


class OffloadGate:
    """What a worker has, or may have since its partition was taken over, does not go to its queue's backlog: who holds
    that one knows nothing of a lease that was extended here. `lease_of`, `return_ms`: as of RedeliveryGate."""

    def __init__(self, guard: RedeliveryGuard, lease_of: Callable[[RowKey], int], return_ms: int = RETURN_MS) -> None:
        self._guard = guard
        self._lease_of = lease_of
        self._return_ms = return_ms

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        fates: dict[int, Fate] = {}
        for row in self._guard.suspects(batch.due, now_ms):
            until_ms = _waits_until_ms(batch, row, self._lease_of(batch.key(row)), self._return_ms, now_ms)
            if until_ms > now_ms:
                fates[row] = _waits(batch, row, until_ms)
        return fates


def _waits(batch: DueBatch, row: int, until_ms: int) -> Fate:
    """A row of an ordering key keeps its place, and its key (rule O5)."""
    return Hold(until_ms) if is_ordered(batch.due.rows, row) else Requeue(until_ms)


def _waits_until_ms(batch: DueBatch, row: int, lease_ms: int, return_ms: int, now_ms: int) -> int:
    """Until when a worker has it, as is known; else until when one that has it is heard of."""
    heard_by_ms = batch.since_ms + return_ms
    if lease_ms <= now_ms < heard_by_ms and batch.due.rows.extra_of(row).lease_until_ms:
        return heard_by_ms
    return lease_ms
