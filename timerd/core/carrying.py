"""What leaves a partition alive: rows that go on at another place, in the memory and in the log of their holder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from timerd.core.carry import backlog_of, carried_rows, guard_carry
from timerd.core.open_rows import OpenBatch
from timerd.core.repeats import pass_ended
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Place
from timerd.model.settle import Carry, CarryReason, Outcome

# Rows of one batch.
Part = list[tuple[OpenBatch, int, Carry]]


def carry_on(rows: RowsInHand, log: SettleLog, carries: Iterable[Carry]) -> None:
    """The open rows of tasks go on elsewhere, unless those were ended meanwhile. What was sent together, and goes to
    the same partition, is written together. The records are of these rows: who asks may know the same attempt by
    another position."""
    parts: dict[tuple[int, Partition], Part] = {}
    copies: list[Carry] = []
    for asked in carries:
        key, carry = asked.source, asked
        # An earlier one of them may have been of the same row.
        found = rows.open.pop(key.digest) if rows.is_open(key) else None
        if found is None:
            continue
        batch, row = found
        others = rows.copies.pop(key.digest)
        if batch.positions[row] != key.position_ms:
            carry = asked._replace(source=key._replace(position_ms=batch.positions[row]))
        verdict = rows.verdict(key)
        # The row that it was written again as is among those that go on with it: it is the task, and has not ended.
        if verdict is not None and not (verdict is Outcome.FORWARDED and others):
            log.end((each, verdict) for each in (carry.source, *others))
            continue
        parts.setdefault((batch.number, carry.target), []).append((batch, row, carry))
        if others:
            copies += [asked._replace(source=other) for other in others]
    for (_, target), part in parts.items():
        _carry_part(log, target, part)
    log.follow(copies)


def guarded(
    log: SettleLog, key: RowKey, lease_until_ms: int, now_ms: int, reason: CarryReason, *, was_sent: bool
) -> Carry:
    """To the end of the lease. Where the same attempt has waited at that very instant before it has ended there, and
    its way would be a circle: a failure takes it to an earlier instant than that of a lease which others still know."""
    carry = guard_carry(log.partition, key, lease_until_ms, now_ms, reason, was_sent=was_sent)
    while not was_sent and log.settled.get(key._replace(position_ms=carry.position_ms)) is not None:
        later_ms = carry.position_ms + 1
        carry = guard_carry(log.partition, key, later_ms, now_ms, reason, was_sent=was_sent)
    return carry


def _carry_part(log: SettleLog, target: Partition, part: Part) -> None:
    carries = [carry for _, _, carry in part]
    which = np.array([row for _, row, _ in part], dtype=np.intp)
    log.carry(carries, (target, carried_rows(part[0][0].rows.select(which), log.partition, carries)))


def join(rows: RowsInHand, log: SettleLog, key: RowKey, place: Place) -> None:
    """An open row says what the one at `place` says: it ends as carried there."""
    found = rows.close(key)
    keys: Sequence[RowKey] = rows.all_of(found) if found is not None else ()
    to = place.partition, place.key.position_ms, place.key.version
    log.follow([Carry(each, CarryReason.GUARD, *to) for each in keys])


def park(rows: RowsInHand, log: SettleLog, limit_ms: int, batch_rows: int) -> None:
    """What waits since before `limit_ms` goes to its queue's backlog."""
    for queue in list(rows.waiting.queues()):
        while _park(rows, log, queue, limit_ms, batch_rows):
            pass


def _park(rows: RowsInHand, log: SettleLog, queue: QueueKey, limit_ms: int, batch_rows: int) -> bool:
    """Whether there are copies of what has left, which go as well."""
    taken, digests, ended = rows.take(queue, batch_rows, limit_ms, past_ms=limit_ms, met=partial(pass_ended, log))
    log.end_met(ended)
    if taken is not None and digests:
        log.park(taken.keys(), (backlog_of(taken, log.partition), taken.compact()))
    return rows.part(digests)
