"""The gates that a partition has for its own rows: what was said of a row before it was due decides its fate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from timerd.core.gates import ALL_MAY, KEPT, DueBatch, End, Fate, Fates
from timerd.core.partition.move_blocks import MoveBlocks
from timerd.core.partition.pending_outcomes import PendingOutcomes
from timerd.model.expiries import expiries_ms
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome


class OutcomeGate:
    """A row whose outcome waits for it ends by it: it was cancelled, purged, moved away, or is written again elsewhere.
    The step that starts a send looks here, so what was answered CANCELLED is not sent (protocol section 5).
    `pending`: the outcome of a row, if there is one."""

    def __init__(
        self, outcomes: PendingOutcomes, moves: MoveBlocks, pending: Callable[[RowKey], Outcome | None]
    ) -> None:
        self._outcomes = outcomes
        self._moves = moves
        self._pending = pending

    def judge(self, batch: DueBatch, _: int) -> Fates:
        if not (self._outcomes or self._moves):
            return ALL_MAY
        fates: dict[int, Fate] = {}
        for row in batch.left():
            if (outcome := self._pending(batch.key(row))) is not None:
                fates[row] = End(outcome)
        self._outcomes.met(batch.key(row) for row in fates)
        return fates


class MoveGate:
    """A row of a task that a move may have taken away is kept until `moves` has been read: sent before that, it may
    fire beside the row that the move has written (protocol section 5)."""

    def __init__(self, moves: MoveBlocks) -> None:
        self._moves = moves

    def judge(self, batch: DueBatch, _: int) -> Fates:
        if not self._moves.asked:
            return ALL_MAY
        digests, asked = batch.due.digests, self._moves.asked
        blocked = [row for row in batch.left() if digests[row] in asked]
        for row in blocked:
            self._moves.keep(batch.key(row), batch.due.rows.one(row))
        return dict.fromkeys(blocked, KEPT)


class ExpiryGate:
    """A row that is past its expire_time ends EXPIRED. One that has been with a worker does not end here: the worker
    may have it still, which another gate knows (core/dispatch/redelivery_gate.py)."""

    def judge(self, batch: DueBatch, _: int) -> Fates:
        rows, past_ms = batch.due.rows, batch.past_ms
        if not any(t.expire_after_ms or 0 < t.expire_at_ms <= past_ms for t in rows.templates):
            return ALL_MAY
        ends_ms = expiries_ms(rows)
        if ends_ms is None:
            return ALL_MAY
        expired = [row for row in np.flatnonzero(ends_ms <= past_ms).tolist() if row not in batch.fates]
        return {row: End(Outcome.EXPIRED) for row in expired if not rows.extra_of(row).lease_until_ms}
