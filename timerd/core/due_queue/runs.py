"""Rows of several runs as one run of the due queue, or as one take of it.

What parts share (prefixes, templates) is cut to what is used: a run that is gathered again and again would else carry
the tables of all runs that it was ever made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from timerd.core.taken import QueueKey
from timerd.core.urgency import Urgency, orders
from timerd.model.rows import RowGroup, concat

# Templates and extras that are looked through in the time that it takes to leave them out.
FEW_NOTES = 32


def joined(parts: list[RowGroup]) -> RowGroup:
    """One run."""
    return by_position(concat([_lean(part) for part in parts]).trimmed())


def in_order_of_firing(parts: list[RowGroup], now_ms: int) -> RowGroup:
    if len(parts) == 1:
        return parts[0]
    parts = [_lean(p) for p in parts]
    each = [orders(p.templates, p.columns["template"], p.columns["position_ms"], now_ms) for p in parts]
    return concat(parts).select(np.argsort(np.concatenate(each), kind="stable"))


def taken(parts: list[RowGroup], now_ms: int) -> RowGroup:
    """One take, in order of firing. The tasks of schedules have a template and an occurrence each, and a run has those
    of thousands: who asks all templates of the few rows of a take must not be given these."""
    rows = in_order_of_firing(parts, now_ms)
    return rows.trimmed() if len(rows.templates) + len(rows.extras) > 2 * len(rows) + FEW_NOTES else rows


def by_position(rows: RowGroup) -> RowGroup:
    positions = np.ascontiguousarray(rows.columns["position_ms"])
    if bool(np.all(positions[1:] >= positions[:-1])):
        return rows
    return rows.select(np.argsort(positions, kind="stable"))


def split(rows: RowGroup) -> Iterator[tuple[QueueKey, Urgency, RowGroup]]:
    """Parts of one queue and urgency, each sorted by position. Most groups have one."""
    if not len(rows):
        return
    places = [(QueueKey(t.namespace, t.queue), Urgency.of(t)) for t in rows.templates]
    if len(set(places)) == 1:
        yield (*places[0], by_position(rows))
        return
    numbers = {place: n for n, place in enumerate(dict.fromkeys(places))}
    kinds = np.array([numbers[p] for p in places])[rows.columns["template"]]
    for (queue, urgency), number in numbers.items():
        part = np.flatnonzero(kinds == number)
        if len(part):
            yield queue, urgency, by_position(rows.select(part))


def each_of(queue: QueueKey, groups: Iterable[RowGroup]) -> Iterator[RowGroup]:
    """What is the queue's, sorted by position, of one urgency each."""
    return (part for rows in groups for found, _, part in split(rows) if found == queue)


def _lean(rows: RowGroup) -> RowGroup:
    """Without what `concat` would copy in vain: of arenas it takes only what is used, of tables everything."""
    tables = len(rows.prefixes) + len(rows.templates) + len(rows.extras)
    return rows if tables <= len(rows) else rows.trimmed()
