"""What waiting rows take of the memory: their columns and payloads, and what they do not share with others.

The budget goes by it (G13), so it may not be far off where each row has labels or a key of its own; it is asked for
each run, so it may not look at each of them either.
"""

from __future__ import annotations

import numpy as np

from timerd.model.rows import ROW, RowGroup

# Templates and extras that are no longer shared, as Python objects; what is in their texts comes on top.
TEMPLATE_BYTES = 640
LABEL_BYTES = 170
EXTRA_BYTES = 250
SAMPLE_OBJECTS = 8


def waiting_bytes(rows: RowGroup) -> int:
    size_bytes = len(rows) * ROW.itemsize + int(rows.columns["length"].sum(dtype=np.int64))
    if len(rows.templates) == 1 and not rows.extras:
        return size_bytes
    return size_bytes + _tables_bytes(rows)


def _tables_bytes(rows: RowGroup) -> int:
    """What rows have of their own outnumbers their columns where each has its trace, its labels or its key. A few of
    them say how large they are."""
    kinds = rows.templates[:: 1 + len(rows.templates) // SAMPLE_OBJECTS]
    labels = sum(len(name) + len(value) + LABEL_BYTES for kind in kinds for name, value in kind.labels)
    extras = rows.extras[:: 1 + len(rows.extras) // SAMPLE_OBJECTS]
    words = sum(len(e.key) + len(e.last_error) + len(e.history) + len(e.progress) for e in extras)
    in_use = int(np.count_nonzero(rows.columns["extra"]))
    return min(len(rows.templates), len(rows)) * (TEMPLATE_BYTES + labels // max(1, len(kinds))) + min(
        len(rows.extras), in_use
    ) * (EXTRA_BYTES + words // max(1, len(extras)))
