"""From rows to a sealed batch: which rows go together, and the bytes that are sent for them (rules X1 and X3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from timerd.outbox.messages import cancel_request, moves_request, schedule_request
from timerd.outbox.rows import OutboxRow, RefusedRow, RowVerb, SealedBatch
from timerd.outbox.template_options import template_of
from timerd.sdk.values import InvalidTask

MOST_ROWS = 1_000
# Beside the last row, which may have 1 MiB.
MOST_BYTES = 4 << 20
# Room for the numbers of all batches that halving one makes: a tree of n rows has less than 2 n.
NUMBER_STEP = 2 * MOST_ROWS
_MAKE = {RowVerb.SCHEDULE: schedule_request, RowVerb.CANCEL: cancel_request, RowVerb.RESCHEDULE: moves_request}


class Sealing(NamedTuple):
    """What one transaction takes out of the outbox. `batch` None: nothing is left to send of it."""

    batch: SealedBatch | None
    taken: list[int]
    refused: list[RefusedRow]


def chosen(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Of the rows with the lowest ids, in their order, those that make one batch: one verb, one namespace, and of each
    key the first row only. A row that waits holds up later ones of its key, and no others."""
    first: OutboxRow | None = None
    together: list[OutboxRow] = []
    seen: set[tuple[str, str]] = set()
    for row in rows:
        first = first or row
        name = (row.namespace, row.key)
        if name not in seen and (row.verb, row.namespace) == (first.verb, first.namespace):
            together.append(row)
        if row.key:
            seen.add(name)
    return together


def sealed(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> Sealing:
    """`outbox`: the outbox's own id, which is in each request id."""
    good: list[OutboxRow] = []
    refused: list[RefusedRow] = []
    for row in (together := chosen(rows)):
        try:
            template_of(row.queue, row.options)
        except InvalidTask as wrong:
            refused.append(RefusedRow(row, str(wrong), wrong.reason))
        else:
            good.append(row)
    batch = batch_of(outbox, no, made_ms, good) if good else None
    return Sealing(batch, [row.id for row in together], refused)


def batch_of(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> SealedBatch:
    """`rows`: of one verb and namespace, at least one."""
    verb = rows[0].verb
    is_ordered = any(row.key for row in rows)
    request = _MAKE[RowVerb(verb)](f"{outbox}.{no}", made_ms, rows)
    return SealedBatch(no, made_ms, verb, len(rows), is_ordered, rows[0].namespace, request)


def halves(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> list[SealedBatch]:
    """Of a batch that was refused as a whole: two with numbers right behind its own, and before the next batch's. Those
    of the first half's halves lie between the two."""
    middle = len(rows) // 2
    first, second = rows[:middle], rows[middle:]
    return [batch_of(outbox, no + 1, made_ms, first), batch_of(outbox, no + 2 * len(first), made_ms, second)]
