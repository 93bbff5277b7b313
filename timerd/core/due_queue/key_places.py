"""Where the limit keys of a queue are cut for which there is not enough memory: the longest keys first, each at a place
of its own. So one customer's million is not kept, and nothing of another one stands in the store behind it.

Of many rows a sample says which keys are long. Keys that are short are seldom in it, and are not cut.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue.lean_run import Run, column_of, positions_of, ties_at
from timerd.core.due_queue.tie_order import tie_of
from timerd.model.rows import FLAG_ORDERED, ROW, RowGroup

# (position, tie).
CutPlace = tuple[int, int]
NOWHERE: CutPlace = (1 << 62, 0)
# A key keeps so many rows, whatever its part of the memory is.
LEAST_ROWS = 64
# So many keys of a queue have places of their own, about 300 bytes each. What the others have too much is cut at one
# place for all.
MOST_KEYS = 1_024
# Rows are whole: what is left may be a little more than was wanted.
SLACK = 1.1
_GOLDEN = 0.6180339887498949


class KeyPlace(NamedTuple):
    """`place`: from there on the rows of the key are in the store. Of the `rows` that it kept half come up to
    `half_ms`, and all but a quarter up to `low_ms`."""

    place: CutPlace
    rows: int
    half_ms: int
    low_ms: int


KeyPlaces = Mapping[str, KeyPlace]


class Cuts(NamedTuple):
    """`place`: that of all keys, NOWHERE where those of some do."""

    keys: dict[str, KeyPlace]
    place: CutPlace


class _Sample(NamedTuple):
    """Rows by key, position and tie. `starts`: where those of a key begin, and the end of all."""

    names: list[str]
    kinds: npt.NDArray[np.intp]
    positions: npt.NDArray[np.int64]
    ties: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.float64]
    starts: npt.NDArray[np.intp]


def sampled(first: int, past: int, step: int) -> npt.NDArray[np.intp]:
    """About one of `step` numbers. Not each of that distance: keys that come in turn would be met never or always."""
    if step == 1:
        return np.arange(first, past)
    numbers = np.arange(-(-(past - first) // step))
    found: npt.NDArray[np.intp] = first + ((numbers + numbers * _GOLDEN % 1) * step).astype(np.intp)
    return found[found < past]


def before_own(run: Run, rows: slice, places: KeyPlaces) -> npt.NDArray[np.bool_]:
    """(n,): which of these rows come before the place of their limit key."""
    templates = run.templates if isinstance(run, RowGroup) else run.shared.templates
    positions = positions_of(run)[rows]
    cut = [kind for kind, template in enumerate(templates) if template.limit_key in places]
    if not cut:
        return np.ones(len(positions), np.bool_)
    own_ms, own_ties = np.full(len(templates), NOWHERE[0], np.int64), np.zeros(len(templates), np.uint64)
    for kind in cut:
        own_ms[kind], own_ties[kind] = places[templates[kind].limit_key].place
    kinds = column_of(run, "template", rows)
    place_ms = own_ms[kinds]
    early: npt.NDArray[np.bool_] = positions < place_ms
    same = np.flatnonzero(positions == place_ms)
    if len(same):
        early[same] = ties_at(run, same + (rows.start or 0)) < own_ties[kinds[same]]
    return early


def is_kept(run: Run, rows: slice, places: KeyPlaces) -> npt.NDArray[np.bool_]:
    """(n,): which of these rows stay where keys are cut there. The next one of an ordering key does."""
    kept = before_own(run, rows, places)
    return kept if kept.all() else kept | (column_of(run, "flags", rows) & FLAG_ORDERED != 0)


def cuts_of(
    parts: Sequence[RowGroup], step: int, share: float, most_keys: int = MOST_KEYS, placed: Container[str] = ()
) -> Cuts:
    """So that of these rows, each of which stands for `step`, about that share is left: each key has as much as the
    others, or all it needs. `most_keys` may get a place, and those that have one another."""
    sample = _sample_of(parts)
    totals = np.bincount(sample.kinds, sample.sizes, len(sample.names)).astype(np.float64)
    wanted = share * totals.sum()
    level, least = _level(totals, wanted), -(-LEAST_ROWS // step)
    longest = np.argsort(-totals, kind="stable")
    has_place = np.array([sample.names[kind] in placed for kind in longest.tolist()], np.bool_)
    longest = longest[has_place | (np.cumsum(~has_place) <= most_keys)]
    places: dict[str, KeyPlace] = {}
    kept = np.ones(len(sample.kinds), np.bool_)
    for kind in longest[totals[longest] > level].tolist():
        own = slice(*sample.starts[kind : kind + 2].tolist())
        rows = max(1, least, int(np.searchsorted(np.cumsum(sample.sizes[own]), level, side="right")))
        if (rows := _to_next(sample, own, rows)) < own.stop - own.start:
            places[sample.names[kind]] = _place_at(sample, own, rows, step)
            kept[own.start + rows : own.stop] = False
    is_enough = sample.sizes[kept].sum() <= wanted * SLACK
    return Cuts(places, NOWHERE if is_enough else _place_of_all(sample, kept, wanted))


def _sample_of(parts: Sequence[RowGroup]) -> _Sample:
    numbers: dict[str, int] = {}
    kinds = np.concatenate([_kinds_of(rows, numbers) for rows in parts])
    positions = np.concatenate([rows.columns["position_ms"] for rows in parts])
    ties = np.concatenate([tie_of(rows) for rows in parts])
    sizes = np.concatenate([rows.columns["length"] for rows in parts]).astype(np.float64) + ROW.itemsize
    order = np.lexsort((ties, positions, kinds))
    kinds = kinds[order]
    starts = np.searchsorted(kinds, np.arange(len(numbers) + 1))
    return _Sample(list(numbers), kinds, positions[order], ties[order], sizes[order], starts)


def _kinds_of(rows: RowGroup, numbers: dict[str, int]) -> npt.NDArray[np.intp]:
    """Keys as numbers. Only templates that the rows use are looked at: a run has those of thousands."""
    used, where = np.unique(rows.columns["template"], return_inverse=True)
    names = [rows.templates[kind].limit_key for kind in used.tolist()]
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.intp)[where]


def _level(totals: npt.NDArray[np.float64], wanted: float) -> float:
    """How much each may keep so that together they keep as much as is wanted."""
    ascending = np.sort(totals)
    left = wanted
    for number, total in enumerate(ascending.tolist()):
        if total * (len(ascending) - number) >= left:
            return left / (len(ascending) - number)
        left -= total
    return float(ascending[-1])


def _to_next(sample: _Sample, own: slice, rows: int) -> int:
    """So many, and those that nothing tells from the last of them."""
    at = own.start + rows
    while at < own.stop and _at(sample, at) == _at(sample, at - 1):
        at += 1
    return int(at - own.start)


def _place_at(sample: _Sample, own: slice, rows: int, step: int) -> KeyPlace:
    half, low = (int(sample.positions[own.start + rows * n // 4]) for n in (2, 3))
    return KeyPlace(_at(sample, own.start + rows), rows * step, half, low)


def _place_of_all(sample: _Sample, kept: npt.NDArray[np.bool_], wanted: float) -> CutPlace:
    """Of what is kept so much comes before it, and one row at least."""
    numbers = np.flatnonzero(kept)
    numbers = numbers[np.lexsort((sample.ties[numbers], sample.positions[numbers]))]
    at = max(1, int(np.searchsorted(np.cumsum(sample.sizes[numbers]), wanted, side="right")))
    others = (n for last, n in pairwise(numbers[at - 1 :].tolist()) if _at(sample, n) != _at(sample, last))
    return next((_at(sample, n) for n in others), NOWHERE)


def _at(sample: _Sample, number: int) -> CutPlace:
    return int(sample.positions[number]), int(sample.ties[number])
