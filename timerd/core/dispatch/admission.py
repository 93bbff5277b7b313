"""What the gates of an instance say of the rows that are taken in one go."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from timerd.core.gates import ALL_MAY, DueBatch, Fate, Fates, Gate, Requeue, judge
from timerd.model.identity import RowKey


class Admission:
    """An ordered list of gates as one gate, for one take. `kept_back` counts the rows that it has objected to, and
    `news` names them until the shell has heard of them."""

    def __init__(self, gates: Iterable[Gate]) -> None:
        self._gates = tuple(gates)
        self.kept_back = 0
        self.news: list[tuple[RowKey, Fate]] = []

    def judge(self, batch: DueBatch, now_ms: int) -> Fates:
        known = len(batch.fates)
        judge(self._gates, batch, now_ms)
        # What is added to a dict stands behind the rest.
        self.news += [(batch.key(row), fate) for row, fate in islice(batch.fates.items(), known, None)]
        self.kept_back += len(batch.fates) - known
        return ALL_MAY

    def requeued(self) -> list[RowKey]:
        """Of the news, the rows of what workers have."""
        return [key for key, fate in self.news if isinstance(fate, Requeue)]
