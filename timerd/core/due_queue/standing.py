"""Which rows of a segment still stand: what has expired waits until a worker asks for it, and counts for nothing."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from timerd.core.due_queue.lean_run import Run, positions_of
from timerd.core.due_queue.segments import Segment
from timerd.model.columns import Columns
from timerd.model.expiries import expiries_of
from timerd.model.rows import RowGroup
from timerd.model.task import Template


def standing(segment: Segment, until_ms: int, past_ms: int) -> tuple[int, int | None]:
    """(how many rows until then have not expired by `past_ms`, the position of the first that has not). A row later
    than that is not due, and has not expired."""
    positions = positions_of(segment.run)
    past = bisect_right(positions, until_ms, segment.cursor, segment.end)
    over = _expired(segment.run, slice(segment.cursor, past), past_ms) if past > segment.cursor else None
    if over is None or not over.any():
        return past - segment.cursor, int(positions[segment.cursor])
    first = segment.cursor + (int(np.argmin(over)) if not over.all() else len(over))
    return int(np.count_nonzero(~over)), int(positions[first]) if first < segment.end else None


def rows_left(rows: RowGroup, numbers: npt.NDArray[np.intp], past_ms: int) -> Columns:
    """(n,) the positions of those of these rows that have not expired by then."""
    positions: Columns = rows.columns["position_ms"][numbers]
    if not any(map(_expires, rows.templates)):
        return positions
    over = _expired(rows.select(numbers), slice(None), past_ms)
    return positions if over is None else positions[~over]


def _expired(run: Run, rows: slice, past_ms: int) -> npt.NDArray[np.bool_] | None:
    """(n,): which of them have expired, of those that no worker has had; None: no row of the run expires."""
    shared = run if isinstance(run, RowGroup) else run.shared
    if not any(map(_expires, shared.templates)):
        return None
    if any(extra.lease_until_ms for extra in shared.extras):
        # A worker may have it still, which another gate knows.
        return _without_lease(run.select(rows), past_ms)
    ends_ms = expiries_of(shared.templates, *_columns(run, rows))
    return None if ends_ms is None else ends_ms <= past_ms


def _expires(template: Template) -> bool:
    return bool(template.expire_at_ms or template.expire_after_ms)


def _columns(run: Run, rows: slice) -> tuple[Columns, Columns]:
    """(templates, fire times): no other column of a lean run is made."""
    if isinstance(run, RowGroup):
        return run.columns["template"][rows], run.columns["fire_at_ms"][rows]
    kinds = run.column("template", rows)
    if run.fire_after_ms is None:
        return kinds, run.column("fire_at_ms", rows)
    return kinds, run.positions[rows] + run.fire_after_ms


def _without_lease(rows: RowGroup, past_ms: int) -> npt.NDArray[np.bool_] | None:
    ends_ms = expiries_of(rows.templates, rows.columns["template"], rows.columns["fire_at_ms"])
    leased = [number for number, extra in enumerate(rows.extras, start=1) if extra.lease_until_ms]
    return None if ends_ms is None else (ends_ms <= past_ms) & ~np.isin(rows.columns["extra"], leased)
