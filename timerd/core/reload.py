"""A queue of which memory kept the beginning only: the rest is read from the store once more.

Each row behind the cut comes once. What may have met it before is what was open, aside or ended there when the reload
began; where nothing was open or aside, what is sent and acked meanwhile is nothing that a later page could bring again.
"""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.taken import QueueKey


class Reload(NamedTuple):
    """`place`: (position, tie) from which on its rows come. `is_plain`: when it began none of them was in hand."""

    queue: QueueKey
    place: tuple[int, int]
    is_plain: bool
