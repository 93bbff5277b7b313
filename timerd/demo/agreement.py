"""The server's ledger beside the verdict: compared, not trusted. Where an answer never came, a range is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from timerd.demo.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the ledger and what the logs allow it to be."""

    name: str
    ledger: int
    least: int
    most: int

    @property
    def agrees(self) -> bool:
        return self.least <= self.ledger <= self.most

    @property
    def allowed(self) -> str:
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


def compare(verdict: Verdict, ledger: Mapping[str, int]) -> tuple[Figure, ...]:
    """`ledger` by the names of the message Ledger."""

    both, either = verdict.delivered_then_cancelled, verdict.acked_or_cancelled

    def figure(name: str, least: int, most: int) -> Figure:
        return Figure(name, ledger.get(name, 0), least, most)

    return (
        figure("acked", verdict.acked - either, verdict.fired),
        figure(
            "cancelled", verdict.cancelled - both, verdict.cancelled + verdict.cancels_unknown + max(0, either - both)
        ),
        figure("moved", verdict.moved, verdict.moved + verdict.moves_unknown + verdict.too_late),
        figure("dead", 0, 0),
        figure("expired", 0, 0),
        figure("purged", 0, 0),
        figure("unexplained", 0, 0),
        # Moves and carries write a row of their own, so more rows than tasks may have been inserted, never fewer.
        figure("inserted", verdict.scheduled, max(verdict.scheduled, ledger.get("inserted", 0))),
    )
