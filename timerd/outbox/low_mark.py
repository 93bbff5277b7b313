"""Where a look for rows begins: above the last id that was taken, and from the start now and then.

Rows that were deleted lie in the way of a look from the start while an old transaction is open. A lower id may be
committed after a higher one was taken, so the mark is no promise: every few seconds the look is from the start, and
always where a row has a key. For of two rows of a key the one with the lower id goes first, and the transaction that
wrote the other one may have seen it.
"""

from __future__ import annotations

from collections.abc import Sequence

from timerd.outbox.rows import OutboxRow
from timerd.outbox.sealing import NOTHING, LeftOut

LOOK_S = 5.0


class LowMark:
    """Of one relay."""

    def __init__(self) -> None:
        self._taken = 0
        self._looked_s = float("-inf")
        self._left_out = NOTHING

    def above(self, now_s: float, left_out: LeftOut = NOTHING) -> int:
        """The id above which the next look begins; 0: from the start. So it is where something else is left out than
        before."""
        if now_s - self._looked_s < LOOK_S and left_out == self._left_out:
            return self._taken
        self._looked_s, self._left_out = now_s, left_out
        return 0

    def look_again(self) -> None:
        """The next look is from the start, for this one passed rows that wait."""
        self._looked_s = float("-inf")

    def is_enough(self, above: int, rows: Sequence[OutboxRow]) -> bool:
        """Whether a look from `above` on that found these needs no other one from the start."""
        return not above or not any(row.key for row in rows)

    def took(self, ids: Sequence[int], left: Sequence[int] = ()) -> None:
        """`left`: ids that were seen and not taken. Nothing of these lies below the mark."""
        self._taken = min([max(self._taken, *ids), *(row_id - 1 for row_id in left)])
