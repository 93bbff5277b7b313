"""How many tasks are due in each minute, roughly: counted as they are scheduled, written every 10 s.

For Count without a range and for whoever plans ahead. What is cancelled or moved later stays counted, and a crash loses
the last seconds: it is an estimate and is called so.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from timerd.model.rows import RowGroup
from timerd.ports import Store

MINUTE_MS = 60_000


class Estimating:
    """`add` is cheap; `flush` writes what came since."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Minutes of each queue.
        self._new: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)

    def add(self, rows: RowGroup) -> None:
        minutes = rows.columns["position_ms"] // MINUTE_MS
        for number, template in enumerate(rows.templates):
            own = minutes[rows.columns["template"] == number] if len(rows.templates) > 1 else minutes
            self._new[template.namespace, template.queue].update(own.tolist())

    async def flush(self) -> None:
        new, self._new = self._new, defaultdict(Counter)
        counts = {(*queue, minute * MINUTE_MS): n for queue, counter in new.items() for minute, n in counter.items()}
        if counts:
            await self._store.save_estimates(counts)
