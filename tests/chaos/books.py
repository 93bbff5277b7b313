"""What callers and workers have written so far: what must still arrive, and what arrived when and by whose token."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from timerd.demo.records import CallRecord, Confirmed, DeliveryRecord, LogReader
from timerd.demo.story import stories_of

LATE_MS = 1_000
# Later than a hint takes, and no later than a sweep finds it.
SWEPT_MS = 150


class Arrivals:
    """When something arrived, how late, and by whose token: by that a fault is known to have left its trace."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}
        # When a delivery came by a higher token than the one before it of its scope.
        self.take_overs_ms: list[float] = []
        # (when it arrived, how late) of first deliveries that were late; `swept`: later than a hint takes.
        self.late: list[tuple[float, float]] = []
        self.swept: list[tuple[float, float]] = []
        self.arrived_ms: list[float] = []

    def came(self, at_ms: float, scope: str, token: int) -> None:
        self.arrived_ms.append(at_ms)
        if token > (before := self._tokens.get(scope, token)):
            self.take_overs_ms.append(at_ms)
        self._tokens[scope] = max(before, token)

    def came_first(self, at_ms: float, late_ms: float) -> None:
        if late_ms > SWEPT_MS:
            self.swept.append((at_ms, late_ms))
        if late_ms > LATE_MS:
            self.late.append((at_ms, late_ms))


class Books(Arrivals):
    """Keeps little of what has arrived, so that a long run can be followed."""

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[Path, LogReader] = {}
        # Not arrived yet, by number.
        self._calls: dict[int, list[CallRecord]] = defaultdict(list)
        self._arrived: set[int] = set()
        self._acked: set[str] = set()
        # Tasks that have ended, as the server says.
        self.over: set[str] = set()
        # The task that each delivery was of.
        self._seen: dict[str, str] = {}
        # Those that were made again.
        self.repeats: list[DeliveryRecord] = []

    def follow(self, logs: Iterable[Path]) -> None:
        for log in logs:
            reader = self._readers.setdefault(log, LogReader(log))
            for record in reader.read():
                if isinstance(record, CallRecord):
                    self._call(record)
                elif isinstance(record, DeliveryRecord):
                    self._delivery(record)
                elif isinstance(record, Confirmed):
                    self._acked.add(record.delivery_id)

    def _call(self, call: CallRecord) -> None:
        if call.number not in self._arrived:
            self._calls[call.number].append(call)

    def _delivery(self, each: DeliveryRecord) -> None:
        if each.delivery_id in self._seen:
            self.repeats.append(each)
        self._seen[each.delivery_id] = each.task_id
        if each.number not in self._arrived:
            self._arrived.add(each.number)
            asked_ms = max((call.asked_ms for call in self._calls.pop(each.number, [])), default=0)
            self.came_first(each.received_ms, each.received_ms - max(each.fire_at_ms, asked_ms))
        self.came(each.received_ms, each.fencing_scope, each.fencing_token)

    def owed(self, until_ms: float) -> list[int]:
        """What must have arrived by then and has not."""
        stories = stories_of(call for calls in self._calls.values() for call in calls)
        for number, story in stories.items():
            if story.cancelled_ms is not None or not (story.stored or story.maybe_stored):
                del self._calls[number]
        return [n for n, story in stories.items() if story.must_arrive and max(story.fire_at_ms) <= until_ms]

    def unconfirmed(self) -> list[str]:
        """Tasks that were delivered, and of which nobody heard the end."""
        silent = {task_id for delivery_id, task_id in self._seen.items() if delivery_id not in self._acked}
        return sorted(silent - self.over)
