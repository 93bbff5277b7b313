"""When tasks expire, of many rows at once. Those of one are methods of their template."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timerd.model.columns import Columns
from timerd.model.rows import RowGroup
from timerd.model.task import Template

# Later than every instant.
NEVER_MS = 1 << 62


def expiries_ms(rows: RowGroup) -> Columns | None:
    """(n,) from when on each is not delivered, NEVER_MS where it may always be; None: all of them may."""
    columns = rows.columns
    return expiries_of(rows.templates, columns["template"], columns["fire_at_ms"])


def expiries_of(templates: Sequence[Template], kinds: Columns, fire_at_ms: Columns) -> Columns | None:
    """As `expiries_ms`, of columns. `kinds`: (n,) which template each row has."""
    return _earliest([(t.expire_at_ms, t.expire_after_ms) for t in templates], kinds, fire_at_ms)


def deadlines_ms(rows: RowGroup) -> Columns | None:
    """(n,) when each is worth nothing any more, also in a worker's hands, as `expiries_ms`."""
    return _instants([(0, t.expire_after_ms) for t in rows.templates], rows)


def soft_expiries_ms(rows: RowGroup) -> Columns | None:
    """(n,) from when on each is late, as `expiries_ms`."""
    return _instants([(t.soft_expire_at_ms, t.soft_expire_after_ms) for t in rows.templates], rows)


def _instants(said: Sequence[tuple[int, int]], rows: RowGroup) -> Columns | None:
    return _earliest(said, rows.columns["template"], rows.columns["fire_at_ms"])


def _earliest(said: Sequence[tuple[int, int]], kinds: Columns, fire_at_ms: Columns) -> Columns | None:
    """`said`: of each template, an instant and a span, 0 where there is none. What is said by templates that no row has
    any more does not count."""
    if not any(map(any, said)):
        return None
    at_ms, after_ms = np.array(said, np.int64).T[:, kinds]
    found: Columns = np.minimum(np.where(at_ms, at_ms, NEVER_MS), np.where(after_ms, fire_at_ms + after_ms, NEVER_MS))
    return found if bool((found < NEVER_MS).any()) else None
