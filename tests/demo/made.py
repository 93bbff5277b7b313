"""Logs of callers and workers, made up."""

from __future__ import annotations

from dataclasses import dataclass, field

from timerd.demo.records import CallRecord, Confirmed, DeliveryRecord, Kill, Logs
from timerd.demo.verdict import Verdict, judge

START_MS = 1_900_000_000_000
KILL = Kill(killed_ms=START_MS + 5000.0, ready_ms=START_MS + 6000.0)


def at(ms: float) -> float:
    return START_MS + ms


@dataclass
class Made:
    """Logs in the making. Times are milliseconds from the start; tasks are named by their numbers."""

    calls: list[CallRecord] = field(default_factory=list)
    deliveries: list[DeliveryRecord] = field(default_factory=list)
    confirmed: list[Confirmed] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=lambda: [KILL])

    def schedule(self, number: int, fire: int, outcome: str = "OK", asked: float = 0) -> None:
        task_id = "" if outcome == "UNKNOWN" else f"T{number}"
        self.calls.append(CallRecord("schedule", number, at(asked), at(asked + 5), outcome, task_id, START_MS + fire))

    def move(self, number: int, fire: int, outcome: str = "OK", asked: float = 100) -> None:
        self.calls.append(CallRecord("move", number, at(asked), at(asked + 5), outcome, f"T{number}", START_MS + fire))

    def cancel(self, number: int, outcome: str, asked: float = 100, answered: float = 105) -> None:
        self.calls.append(CallRecord("cancel", number, at(asked), at(answered), outcome, f"T{number}"))

    def deliver(
        self, number: int, fire: int, late: float = 1.5, acked: bool = True, delivery: str = "", sent: float = -START_MS
    ) -> None:
        name, received = delivery or f"D{number}", at(fire + late)
        task = DeliveryRecord(number, f"T{number}", name, 1, START_MS + fire, received, sent_after_ms=at(sent))
        self.deliveries.append(task)
        if acked:
            self.confirmed.append(Confirmed(name, 1, received + 3))

    def verdict(self) -> Verdict:
        return judge(Logs(tuple(self.calls), tuple(self.deliveries), tuple(self.confirmed), tuple(self.kills)))


def as_promised() -> Made:
    """Tasks of every kind, a kill, and nothing that must not be."""
    made = Made()
    for number, fire in ((1, 1000), (2, 2000), (3, 8000)):
        made.schedule(number, fire)
        made.deliver(number, fire)
    made.schedule(4, 3000)
    made.move(4, 4000)
    made.deliver(4, 4000)
    made.schedule(5, 3000)
    made.cancel(5, "CANCELLED")
    return made
