"""Rows that were with a worker before, looked at once more when they are about to fire.

The earlier delivery may still be in hand: then the row is requeued to the end of the lease. If it is not, the attempt
that ended silently may have been the last one, or the task may have expired meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.dispatch.settlement import Failure, letter_of
from timerd.core.gates import ALL_MAY, DueBatch, End, Fate, Fates, Requeue
from timerd.model.identity import RowKey, attempt_of
from timerd.model.settle import Outcome

# Whose lease ended while nobody could extend it, for its partition changed hands or its server was away, has so long to
# be heard of: a worker tries every 2 s at the least to connect again, and its home may have to tell another instance.
RETURN_MS = 5_000
GONE = "the lease ended: the worker that had the last attempt was not heard of again"


class RedeliveryGate:
    """A task that a worker has is not sent to another one (guarantee G5). `lease_of`: until when a worker has the
    delivery of a row, as far as is known; `return_ms`: a worker that has what was taken over with its lease, and has
    extended it since, is heard of within this time."""

    def __init__(
        self, guard: RedeliveryGuard, lease_of: Callable[[RowKey], int], secret: bytes, return_ms: int = RETURN_MS
    ) -> None:
        self._guard = guard
        self._lease_of = lease_of
        self._secret = secret
        self._return_ms = return_ms

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        suspects = self._guard.suspects(batch.due, now_ms)
        if not len(suspects):
            return ALL_MAY
        heard_by_ms = batch.since_ms + self._return_ms
        fates: dict[int, Fate] = {}
        for row in suspects:
            if row not in batch.fates and (fate := self._fate(batch, row, heard_by_ms, now_ms)) is not None:
                fates[row] = fate
        return fates

    def _fate(self, batch: DueBatch, row: int, heard_by_ms: int, now_ms: int) -> Fate | None:
        rows, key = batch.due.rows, batch.key(row)
        template = rows.template_of(row)
        until_ms = self._lease_of(key)
        if until_ms <= now_ms < heard_by_ms and rows.extra_of(row).lease_until_ms:
            until_ms = heard_by_ms
        if until_ms > now_ms:
            return Requeue(until_ms)
        if attempt_of(key.version) > template.retry.max_attempts:
            failure = Failure(now_ms, rows.extra_of(row).last_error or GONE)
            letter = letter_of(batch.due, row, key, failure, self._secret)
            return End(Outcome.DEAD, replace(letter, attempts=letter.attempts - 1))
        if 0 < template.expire_at_ms <= now_ms:
            return End(Outcome.EXPIRED)
        return None
