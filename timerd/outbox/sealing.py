"""From rows to a sealed batch: which rows go together, and the bytes that are sent for them (rules X1 and X3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from timerd.outbox.messages import REQUEST_OF, joined, rows_in
from timerd.outbox.outcomes import SendOutcome
from timerd.outbox.rows import CHAINS, OutboxRow, RefusedRow, SealedBatch
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
# Of a key in one batch, in which its rows go one after the other: a relay that takes it over begins with the first.
MOST_OF_KEY = 50
# With its namespace: a key, or a queue.
QualifiedName = tuple[str, str]


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
    """Of the rows with the lowest ids those that make batches. A batch has one verb, one namespace and one queue, for a
    queue is shut as a whole. The rows of a key that has several are a chain, of which each waits for the one before;
    chains have batches of their own. A row that waits holds up later ones of its key, and no others. `busy`: the keys
    of sealed batches that are left, whose rows wait (X3)."""
    looked = list(rows)
    of_key = _rows_of_keys(looked)
    batches: dict[tuple[str, int, str], list[OutboxRow]] = {}
    seen: set[QualifiedName] = set(busy)
    for row in looked:
        name = row.namespace, row.key
        chain = of_key.get(name, [row])
        kind = (row.namespace, row.verb, row.queue) if len(chain) == 1 else (row.namespace, CHAINS, _queue_of(chain))
        if name not in seen and (kind in batches or len(batches) < MOST_BATCHES):
            batches.setdefault(kind, []).extend(chain)
        if row.key:
            seen.add(name)
    return [*batches.values()]


def _rows_of_keys(rows: Sequence[OutboxRow]) -> dict[QualifiedName, list[OutboxRow]]:
    """In their order, as far as they are of one queue."""
    found: dict[QualifiedName, list[OutboxRow]] = {}
    over: set[QualifiedName] = set()
    for row in rows:
        name = row.namespace, row.key
        chain = found.setdefault(name, []) if row.key else []
        if len(chain) == MOST_OF_KEY or (row.queue and _queue_of(chain) not in ("", row.queue)):
            over.add(name)
        if row.key and name not in over:
            chain.append(row)
    return found


def _queue_of(chain: Sequence[OutboxRow]) -> str:
    """Moves and cancels name none."""
    return next((row.queue for row in chain if row.queue), "")


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
    """`rows`: of one namespace, at least one. They are chains where their verbs differ, or a key has several."""
    keys = [row.key for row in rows if row.key]
    is_plain = len({row.verb for row in rows}) == 1 and len({*keys}) == len(keys)
    verb = rows[0].verb if is_plain else CHAINS
    request = REQUEST_OF[verb](f"{outbox}.{no}", made_ms, rows)
    return SealedBatch(no, made_ms, verb, len(rows), bool(keys), rows[0].namespace, request)


def anew(outbox: str, batch: SealedBatch, made_ms: int) -> SealedBatch:
    """The same rows as of now, under the same number (X5)."""
    request = REQUEST_OF[batch.verb](f"{outbox}.{batch.no}", made_ms, rows_in(batch))
    return batch._replace(made_ms=made_ms, request=request)


def is_clogged(rows: Sequence[OutboxRow], busy: Collection[QualifiedName]) -> bool:
    """Whether these are as many as one look finds, and nearly all of them wait for a sealed batch with their key."""
    if len(rows) < MOST_ROWS and sum(len(row.payload) for row in rows) < MOST_BYTES:
        return False
    return sum((row.namespace, row.key) not in busy for row in rows) < FEW_ROWS


def rest(outbox: str, batch: SealedBatch, made_ms: int, outcome: SendOutcome) -> SealedBatch:
    """Of a batch that was stored in part, what was not: right behind it, as a half of it would be. Of chains by the
    same bytes, some of which may still be on their way (X6), but for links of which it is known what was stored."""
    no = batch.no + 1
    if batch.verb != CHAINS:
        return batch_of(outbox, no, made_ms, outcome.left)
    links = [
        each if isinstance(each, SealedBatch) else _link(f"{outbox}.{no}.{n}", batch, made_ms, each)
        for n, each in enumerate(outcome.links)
    ]
    request = joined((each.verb, each.tasks, each.request) for each in links)
    return batch._replace(no=no, made_ms=made_ms, tasks=sum(each.tasks for each in links), request=request)


def _link(request_id: str, batch: SealedBatch, made_ms: int, rows: Sequence[OutboxRow]) -> SealedBatch:
    request = REQUEST_OF[rows[0].verb](request_id, made_ms, rows)
    return batch._replace(verb=rows[0].verb, tasks=len(rows), request=request)


def halves(outbox: str, no: int, made_ms: int, rows: Sequence[OutboxRow]) -> list[SealedBatch]:
    """Of a batch that was refused as a whole: two with numbers right behind its own, and before the next batch's. Those
    of the first half's halves lie between the two."""
    middle = len(rows) // 2
    first, second = rows[:middle], rows[middle:]
    return [batch_of(outbox, no + 1, made_ms, first), batch_of(outbox, no + 2 * len(first), made_ms, second)]
