"""How urgent a due task is: an order key, of which the least is next.

The score of a task is 1024 p + 16 age, and for one on demand 4096 + 32 age more, age in seconds. What all have alike
changes no order, so a key is counted from now and in milliseconds of waiting, 16 points a second: position - 64,000 p,
which never changes, less what being on demand is worth so far. Scores of one urgency never cross.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from timerd.model.columns import Columns
from timerd.model.task import PRIORITY_MS, Template

# What being on demand is worth at first, and for each millisecond of waiting: 4096 and 32 points, of 16.
ON_DEMAND_MS = 256_000
GAIN = 2
OrderColumn = npt.NDArray[np.int64]
Position = TypeVar("Position", int, npt.NDArray[np.int64])


class Urgency(NamedTuple):
    """What tasks have in common that stay in the order of their positions."""

    priority: int
    is_on_demand: bool = False

    @classmethod
    def of(cls, template: Template) -> Urgency:
        return cls(template.priority, template.on_demand)

    def order(self, position_ms: Position, now_ms: int) -> Position:
        """The order key of a task that is due by then, or of each."""
        key = position_ms - PRIORITY_MS * self.priority
        return key - ON_DEMAND_MS - GAIN * (now_ms - position_ms) if self.is_on_demand else key

    def last_ms(self, order: int, now_ms: int) -> int:
        """Up to which position the order keys of tasks are this one at most."""
        if not self.is_on_demand:
            return order + PRIORITY_MS * self.priority
        return (order + PRIORITY_MS * self.priority + ON_DEMAND_MS + GAIN * now_ms) // (1 + GAIN)


def orders(
    templates: Sequence[Template], which: Columns, positions_ms: OrderColumn, now_ms: int | OrderColumn
) -> OrderColumn:
    """(n,): the order key of each task. `which`: the number of its template. `now_ms`: one for all, or of each."""
    keys: OrderColumn = positions_ms - np.array([PRIORITY_MS * each.priority for each in templates], np.int64)[which]
    if not any(each.on_demand for each in templates):
        return keys
    ahead_ms: OrderColumn = ON_DEMAND_MS + GAIN * (now_ms - positions_ms)
    return np.where(np.array([each.on_demand for each in templates], np.bool_)[which], keys - ahead_ms, keys)
