"""What one instance has done for schedules, for those who watch. Ids of schedules are in no metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from timerd.model.backfills import BackfillTick
from timerd.model.schedules import Schedule, Tick

# A tick that fails comes again within a minute: one that is heard of no more is at work on another instance, or gone.
HEARD_S = 150.0
INSTANTS = ("created", "missed", "skipped")


class ScheduleStats:
    """`ticks`: by what they came to. `instants`: by what was recorded of them here, what a change has withdrawn since
    included."""

    def __init__(self, time_s: Callable[[], float]) -> None:
        self.ticks: Counter[str] = Counter()
        self.instants: Counter[str] = Counter(dict.fromkeys(INSTANTS, 0))
        self._time_s = time_s
        self._broken: dict[tuple[str, str], float] = {}

    def recorded(self, before: Schedule, after: Schedule) -> None:
        self.instants["created"] += after.created - before.created
        self.instants["missed"] += after.missed - before.missed
        self.instants["skipped"] += after.overlap.skipped - before.overlap.skipped

    def came_through(self, tick: Tick | BackfillTick, outcome: str) -> None:
        self.ticks[outcome] += 1
        self._broken.pop((tick.namespace, tick.schedule_id), None)

    def failed_often(self, tick: Tick | BackfillTick) -> None:
        self._broken[tick.namespace, tick.schedule_id] = self._time_s()

    @property
    def broken(self) -> int:
        """Schedules whose ticks have failed ten times here, and go on failing."""
        since_s = self._time_s() - HEARD_S
        self._broken = {each: at_s for each, at_s in self._broken.items() if at_s > since_s}
        return len(self._broken)
