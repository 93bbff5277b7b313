"""The score of a task that waits in line for a slot, as a key that never changes.

The score is 1024 p + 16 age + 500 / slots, age in seconds. Such scores grow alike, so the order among these tasks does
not change while they wait: the least key is the greatest score. Those on demand are in core/urgency.py.
"""

from __future__ import annotations

from timerd.model.task import PRIORITY_MS

# What a type that one slot alone can run is ahead by, in ms of waiting: 500 points of 16 a second.
RAREST_MS = 31_250


def rarity_ms(slots: int) -> int:
    """By how much a type is ahead that so many slots in all can run, the busy ones counted: by the free ones each send
    would change the order of everything."""
    return -(-RAREST_MS // slots)


def order_key(position_ms: int, priority: int, slots: int) -> int:
    """The key of a task: the least is next."""
    return position_ms - PRIORITY_MS * priority - rarity_ms(slots)
