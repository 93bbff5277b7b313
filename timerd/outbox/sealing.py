"""From rows to a sealed batch: which rows go together, and the bytes that are sent for them (rules X1 and X3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from timerd.outbox.messages import cancel_request, moves_request, schedule_request
from timerd.outbox.rows import OutboxRow, RefusedRow, RowVerb, SealedBatch
from timerd.outbox.template_options import template_of
from timerd.sdk.values import InvalidTask

MOST_ROWS = 1_000
# Beside the last row, which may have 1 MiB.
MOST_BYTES = 4 << 20
# Of many rows that were looked at: with fewer the look goes on behind those that wait.
FEW_ROWS = 20
# Of one transaction.
MOST_BATCHES = 8
# Room for the numbers of all batches that halving one makes: a tree of n rows has less than 2 n.
NUMBER_STEP = 2 * MOST_ROWS
# With its namespace: a key, or a queue.
QualifiedName = tuple[str, str]
_MAKE = {RowVerb.SCHEDULE: schedule_request, RowVerb.CANCEL: cancel_request, RowVerb.RESCHEDULE: moves_request}


class LeftOut(NamedTuple):
    """What the server takes nothing of for now, and is not sealed: namespaces, and queues with their namespaces."""

    namespaces: frozenset[str] = frozenset()
    queues: frozenset[QualifiedName] = frozenset()


NOTHING = LeftOut()


class Sealing(NamedTuple):
    """What one transaction takes out of the outbox. Without `batches` nothing is left to send of it."""

    batches: list[SealedBatch]
    taken: list[int]
    refused: list[RefusedRow]


def chosen(rows: Iterable[OutboxRow], busy: Collection[QualifiedName] = ()) -> list[list[OutboxRow]]:
    """Of the rows with the lowest ids those that make batches, in their order. A batch has one verb, one namespace and
    one queue, for a queue is shut as a whole. Of each key it is the first row only: a row that waits holds up later
    ones of its key, and no others. `busy`: the keys of sealed batches that are left, whose rows wait (X3)."""
    batches: dict[tuple[str, int, str], list[OutboxRow]] = {}
    seen: set[QualifiedName] = set(busy)
    for row in rows:
        name, kind = (row.namespace, row.key), (row.namespace, row.verb, row.queue)
        if name not in seen and (kind in batches or len(batches) < MOST_BATCHES):
            batches.setdefault(kind, []).append(row)
        if row.key:
            seen.add(name)
    return [*batches.values()]


def sealed(
    outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow], busy: Collection[QualifiedName] = ()
) -> Sealing:
    """`outbox`: the outbox's own id, which is in each request id. `no`: of the first batch."""
    sealing = Sealing([], [], [])
    for together in chosen(rows, busy):
        good = [row for row in together if _is_good(row, sealing.refused)]
        if good:
            sealing.batches.append(batch_of(outbox, no + NUMBER_STEP * len(sealing.batches), made_ms, good))
        sealing.taken.extend(row.id for row in together)
    return sealing


def _is_good(row: OutboxRow, refused: list[RefusedRow]) -> bool:
    """If not, it is put with the refused ones."""
    try:
        template_of(row.queue, row.options)
    except InvalidTask as wrong:
        refused.append(RefusedRow(row, str(wrong), wrong.reason))
        return False
    return True


def batch_of(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> SealedBatch:
    """`rows`: of one verb and namespace, at least one."""
    verb = rows[0].verb
    is_ordered = any(row.key for row in rows)
    request = _MAKE[RowVerb(verb)](f"{outbox}.{no}", made_ms, rows)
    return SealedBatch(no, made_ms, verb, len(rows), is_ordered, rows[0].namespace, request)


def is_clogged(rows: Sequence[OutboxRow], busy: Collection[QualifiedName]) -> bool:
    """Whether these are as many as one look finds, and nearly all of them wait for a sealed batch with their key."""
    if len(rows) < MOST_ROWS and sum(len(row.payload) for row in rows) < MOST_BYTES:
        return False
    return sum((row.namespace, row.key) not in busy for row in rows) < FEW_ROWS


def rest(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> SealedBatch:
    """Of a batch that was stored in part, what was not: right behind it, as a half of it would be."""
    return batch_of(outbox, no + 1, made_ms, rows)


def halves(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> list[SealedBatch]:
    """Of a batch that was refused as a whole: two with numbers right behind its own, and before the next batch's. Those
    of the first half's halves lie between the two."""
    middle = len(rows) // 2
    first, second = rows[:middle], rows[middle:]
    return [batch_of(outbox, no + 1, made_ms, first), batch_of(outbox, no + 2 * len(first), made_ms, second)]
