"""Tasks are counted for the minute in which they are due, in whatever pieces they come."""

from __future__ import annotations

from collections import Counter
from typing import cast

import numpy as np
import pytest

from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.ports import EstimatedTotal, Store
from timerd.services.engine.estimating import COUNTED_AT_ONCE, FEW_ROWS, MINUTE_MS, Estimating


class Kept:
    """The part of a store that is asked for."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()

    async def save_estimates(self, counts: dict[tuple[str, str, int], int]) -> None:
        self.counts.update(counts)

    async def estimates(self, *_: object) -> dict[int, int]:
        return {}

    async def estimated(self, *_: object) -> EstimatedTotal:
        return EstimatedTotal(0, 0)


def rows(minutes: list[int], queue: str) -> RowGroup:
    columns = np.zeros(len(minutes), ROW)
    columns["position_ms"] = np.array(minutes) * MINUTE_MS + 7
    return RowGroup(columns, np.zeros(1, PREFIX), [Template("n", queue)], b"", [])


@pytest.mark.parametrize("piece", [1, FEW_ROWS - 1, FEW_ROWS, 1000])
async def test_what_comes_in_pieces_is_counted_as_if_it_came_at_once(piece: int) -> None:
    store = Kept()
    estimating = Estimating(cast(Store, store))
    told: Counter[tuple[str, str, int]] = Counter()
    for start in range(0, 2 * COUNTED_AT_ONCE, piece):
        queue, minutes = "qr"[start // piece % 2], [n % 7 for n in range(start, start + piece)]
        estimating.add(rows(minutes, queue))
        told.update(("n", queue, minute * MINUTE_MS) for minute in minutes)
    in_q = sum(n for (_, queue, _), n in told.items() if queue == "q")
    assert await estimating.total("n", "q", 0) == (in_q, 0)
    estimating.add(rows([3] * piece, "q"))
    told["n", "q", 3 * MINUTE_MS] += piece
    await estimating.flush()
    assert store.counts == told
