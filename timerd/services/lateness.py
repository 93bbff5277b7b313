"""How late deliveries were sent after their instant (guarantee G10). Plain lists: an update costs next to nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

BOUNDS_MS = (0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 6e4, 6e5, 3.6e6)
_FEW = 16


class Lateness:
    """`counts[i]`: how many were at most `bounds_ms[i]` late and more than the bound before; the last one: the rest."""

    def __init__(self, bounds_ms: Sequence[float] = BOUNDS_MS) -> None:
        self.bounds_ms = list(bounds_ms)
        self.counts = [0] * (len(self.bounds_ms) + 1)

    def sent(self, now_ms: int, positions_ms: npt.NDArray[Any]) -> None:
        late_ms = now_ms - positions_ms
        if len(late_ms) <= _FEW:
            for each_ms in late_ms.tolist():
                self.counts[bisect_left(self.bounds_ms, each_ms)] += 1
            return
        places = np.bincount(np.searchsorted(self.bounds_ms, late_ms))
        for place in np.flatnonzero(places).tolist():
            self.counts[place] += int(places[place])
