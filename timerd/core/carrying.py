"""What leaves a partition alive: rows that go on at another place, in the memory and in the log of their holder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from timerd.core.carry import backlog_of, carried_row
from timerd.core.repeats import pass_ended
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.taken import QueueKey
from timerd.model.identity import RowKey
from timerd.model.registers import Place
from timerd.model.settle import Carry, CarryReason


def carry_on(rows: RowsInHand, log: SettleLog, carry: Carry) -> None:
    """An open row goes on elsewhere, unless its task was ended meanwhile."""
    found = rows.close(carry.source)
    keys = rows.all_of(found) if found is not None else [carry.source]
    verdict = rows.verdict(carry.source)
    if verdict is not None:
        log.end((key, verdict) for key in keys)
    elif found is not None:
        log.carry(carry, (carry.target, carried_row(found.rows, found.row, log.partition, carry)))
        for copy in keys[1:]:
            log.follow(replace(carry, source=copy))


def join(rows: RowsInHand, log: SettleLog, key: RowKey, place: Place) -> None:
    """An open row says what the one at `place` says: it ends as carried there."""
    found = rows.close(key)
    for each in rows.all_of(found) if found is not None else ():
        log.follow(Carry(each, CarryReason.GUARD, place.partition, place.key.position_ms, place.key.version))


def park(rows: RowsInHand, log: SettleLog, limit_ms: int, batch_rows: int) -> None:
    """What waits since before `limit_ms` goes to its queue's backlog."""
    for queue in list(rows.waiting.queues()):
        while _park(rows, log, queue, limit_ms, batch_rows):
            pass


def _park(rows: RowsInHand, log: SettleLog, queue: QueueKey, limit_ms: int, batch_rows: int) -> bool:
    """Whether there are copies of what has left, which go as well."""
    taken, digests, ended = rows.take(queue, batch_rows, limit_ms, met=partial(pass_ended, log))
    log.end_met(ended)
    if taken is not None and digests:
        log.park(taken.keys(), (backlog_of(taken, log.partition), taken.compact()))
    return rows.part(digests)
