"""Rows go to their instants; what is late goes to now, and is marked so."""

from __future__ import annotations

import numpy as np
import pytest

from timerd.model.identity import RowKey
from timerd.model.rows import FLAG_LATE, concat, single_row
from timerd.model.task import NO_EXTRA, Template
from timerd.services.engine.placing import placed_from, positioned

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("distances_ms", [[0], [5], [-1], [0, 7], [3, -2, 9], [-4, -5]])
def test_what_is_late_goes_to_now(distances_ms: list[int]) -> None:
    asked_ms = np.array(distances_ms, np.int64) + NOW_MS
    placed_ms = placed_from(asked_ms, NOW_MS)
    assert placed_ms.tolist() == [max(asked, NOW_MS) for asked in asked_ms.tolist()]
    rows = concat(
        [
            single_row(RowKey(at_ms, bytes(16), 0), at_ms, Template("d", "q"), b"", NO_EXTRA, 0)
            for at_ms in asked_ms.tolist()
        ]
    )
    late = positioned(rows, placed_ms, asked_ms).columns
    assert late["position_ms"].tolist() == placed_ms.tolist()
    assert late["fire_at_ms"].tolist() == asked_ms.tolist()
    assert late["flags"].tolist() == [FLAG_LATE if distance < 0 else 0 for distance in distances_ms]
