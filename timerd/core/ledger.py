"""The ledger: every row that was inserted ended in one of the known ways, is open, or is unexplained (protocol
section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from timerd.model.registers import Control
from timerd.model.settle import Outcome

NAMES = {
    Outcome.ACKED: "acked",
    Outcome.CARRIED: "carried",
    Outcome.PARKED: "carried",
    Outcome.DEAD: "dead",
    Outcome.EXPIRED: "expired",
    Outcome.MOVED: "moved",
    Outcome.FORWARDED: "moved",
    Outcome.CANCELLED: "cancelled",
    Outcome.PURGED: "purged",
}


@dataclass(slots=True)
class Ledger:
    """Sums over partitions. `inserted` counts the rows of finished ones; those of open ones are their endings so
    far."""

    inserted: int = 0
    outcomes: Counter[int] = field(default_factory=Counter)

    def add_finished(self, controls: Iterable[Control]) -> None:
        for control in controls:
            self.inserted += control.inserted
            self.outcomes.update(dict(control.counts))

    def add_open(self, outcomes: Counter[int]) -> None:
        self.inserted += outcomes.total()
        self.outcomes.update(outcomes)

    @property
    def unexplained(self) -> int:
        """Rows that are in no outcome: a writer that died before its OK, or a defect."""
        return self.inserted - self.outcomes.total()

    def named(self) -> dict[str, int]:
        """By the names of the wire. An end that only a later release knows is over for this one like a carried row."""
        out = dict.fromkeys(NAMES.values(), 0)
        for outcome, number in self.outcomes.items():
            out[NAMES.get(Outcome(outcome), "carried")] += number
        return {"inserted": self.inserted, **out, "unexplained": self.unexplained}
