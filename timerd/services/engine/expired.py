"""What has expired, for who looks: it counts as over before its turn has come and a record says so.

Nobody writes anything for that. A row that a worker has from before is not over; who holds it is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from timerd.core.protocol import HEARD_OF_MS, Located
from timerd.model.expiries import expiries_ms
from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.procedure_runner import ProcedureRunner

# Two instances whose clocks are used differ by less (core/cluster/clock_comparison.py); between two comparisons a
# little more.
CLOCKS_APART_MS = 500


class Expired:
    """Of one instance."""

    def __init__(self, runner: ProcedureRunner, time: EngineTime) -> None:
        self._runner = runner
        self._time = time

    def has(self, here: Located) -> bool:
        """Of a task that no worker has."""
        return here.has_expired(self._sure_ms())

    async def among(
        self, partition: Partition, rows: RowGroup, over: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_] | None:
        """Which of the rows have expired, of those that are not `over` and that no worker has. None: none of them."""
        ends_ms = expiries_ms(rows)
        if ends_ms is None:
            return None
        now_ms = self._sure_ms()
        has_expired = ~over & (ends_ms <= np.maximum(now_ms, rows.columns["position_ms"]))
        numbers = [n for n in np.flatnonzero(has_expired).tolist() if _is_given_up(rows, n, now_ms)]
        keys = rows.keys() if numbers else []
        asked = [(keys[n], rows.extra_of(n).lease_until_ms) for n in numbers]
        in_hand = await self._runner.in_hand(partition, asked) if asked else []
        found = np.zeros(len(rows), np.bool_)
        found[_without(numbers, in_hand)] = True
        return found if found.any() else None

    def _sure_ms(self) -> int:
        """So much has passed by the clock of the instance that holds the row."""
        return int(self._time.exact_ms()) - (0 if self._runner.others.is_single else CLOCKS_APART_MS)


def _is_given_up(rows: RowGroup, row: int, now_ms: int) -> bool:
    """The lease of the delivery that it waits for, if any, is over, and its worker was not heard of since."""
    lease_ms = rows.extra_of(row).lease_until_ms
    return not lease_ms or lease_ms + HEARD_OF_MS <= now_ms


def _without(numbers: Sequence[int], in_hand: Sequence[bool] | None) -> list[int]:
    """Where their holder does not answer, nothing is said of them."""
    if in_hand is None:
        return []
    return [n for n, is_in_hand in zip(numbers, in_hand, strict=True) if not is_in_hand]
