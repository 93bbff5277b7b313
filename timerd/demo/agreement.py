"""The server's ledger beside the verdict: compared, not trusted. Where an answer never came, a range is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from timerd.demo.records import Logs
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


def may_be_repeated(logs: Logs) -> set[int]:
    """Tasks of calls that were under way when something was killed, or answered after the task was due: where a repeat
    is not known as one, such a task may have more rows than one."""
    return {
        call.number
        for call in logs.calls
        if (call.verb != "cancel" and call.answered_ms > call.fire_at_ms)
        or any(call.asked_ms <= kill.ready_ms and kill.killed_ms <= call.answered_ms for kill in logs.kills)
    }


def compare(
    verdict: Verdict, ledger: Mapping[str, int], written_again: int = 0, scheduled: tuple[int, int] = (0, 0)
) -> tuple[Figure, ...]:
    """`ledger` by the names of the message Ledger. `written_again`: as many rows may be there beside the tasks'
    own, of calls that were repeated: each ends as its task did, or nobody knows how. `scheduled`: how many tasks a
    schedule has made that were acknowledged, at the least and at the most."""

    both, either = verdict.delivered_then_cancelled, verdict.acked_or_cancelled

    def figure(name: str, least: int, most: int) -> Figure:
        return Figure(name, ledger.get(name, 0), least, most)

    return (
        figure("acked", verdict.acked - either + scheduled[0], verdict.fired + written_again + scheduled[1]),
        figure(
            "cancelled",
            verdict.cancelled - both,
            verdict.cancelled + verdict.cancels_unknown + max(0, either - both) + written_again,
        ),
        figure("moved", verdict.moved, verdict.moved + verdict.moves_unknown + verdict.too_late + written_again),
        figure("dead", 0, 0),
        figure("expired", 0, 0),
        figure("purged", 0, 0),
        figure("unexplained", 0, written_again),
        # Moves and carries write a row of their own, so more rows than tasks may have been inserted, never fewer.
        figure("inserted", verdict.scheduled + scheduled[0], max(verdict.scheduled, ledger.get("inserted", 0))),
    )
