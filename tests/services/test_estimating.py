"""Tasks are counted for the minute in which they are due, in whatever pieces they come."""

from __future__ import annotations

import numpy as np

from timerd.services.engine.estimating import COUNTED_AT_ONCE, Minutes


def test_what_comes_in_pieces_is_counted_as_if_it_came_at_once() -> None:
    minutes = Minutes()
    pieces = [np.arange(start, start + 1000) % 7 for start in range(0, 3 * COUNTED_AT_ONCE, 1000)]
    for piece in pieces:
        minutes.add(piece)
    minutes.counts()[3] -= 5
    minutes.add(np.array([3, 100]))
    together = np.bincount(np.concatenate([*pieces, [3, 100]]))
    together[3] -= 5
    assert minutes.counts() == {minute: n for minute, n in enumerate(together.tolist()) if n}
