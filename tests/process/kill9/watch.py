"""What is open at this instant, as far as the logs of workers and callers are written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from timerd.demo.records import Confirmed, DeliveryRecord, LogReader

_PATIENCE_S = 60.0
_LOOK_S = 0.002


class Open:
    """What has begun and not ended, with both instants."""

    def __init__(self) -> None:
        self._begun_ms: dict[object, float] = {}
        self._ended_ms: dict[object, float] = {}

    def __len__(self) -> int:
        return len(self._begun_ms) - len(self._ended_ms)

    def __contains__(self, what: object) -> bool:
        return what in self._begun_ms

    def begin(self, what: object, at_ms: float) -> None:
        self._begun_ms.setdefault(what, at_ms)

    def end(self, what: object, at_ms: float) -> None:
        if what in self._begun_ms:
            self._ended_ms.setdefault(what, at_ms)

    def count_at(self, at_ms: float) -> int:
        """How many were open then; what had ended by then is forgotten."""
        for what in [what for what, ended_ms in self._ended_ms.items() if ended_ms <= at_ms]:
            del self._begun_ms[what], self._ended_ms[what]
        return sum(begun_ms <= at_ms for begun_ms in self._begun_ms.values())


class Watch:
    """Follows the logs that are added to it, and what each caller says that it asked."""

    def __init__(self, *asked: Path) -> None:
        self._workers: list[tuple[LogReader, Open]] = []
        self._offsets = dict.fromkeys(asked, 0)
        self.received = 0
        # Deliveries of what is open already: made again.
        self.repeats = 0
        self.deliveries = Open()
        self.calls = Open()

    def add(self, log: Path) -> Open:
        """Of one more worker; returns what that one has in hand."""
        in_hand = Open()
        self._workers.append((LogReader(log), in_hand))
        return in_hand

    def look(self) -> None:
        for reader, in_hand in self._workers:
            for record in reader.read():
                if isinstance(record, DeliveryRecord):
                    self.received += 1
                    self.repeats += record.delivery_id in self.deliveries
                    for each in (in_hand, self.deliveries):
                        each.begin(record.delivery_id, record.received_ms)
                elif isinstance(record, Confirmed):
                    for each in (in_hand, self.deliveries):
                        each.end(record.delivery_id, record.confirmed_ms)
        for asked in self._offsets:
            for mark in self._marks(asked):
                (self.calls.begin if mark["what"] == "asked" else self.calls.end)((asked, mark["call"]), mark["at_ms"])

    def _marks(self, asked: Path) -> Iterator[dict[str, Any]]:
        with asked.open("rb") as file:
            file.seek(self._offsets[asked])
            for line in file:
                if not line.endswith(b"\n"):
                    # Its end is being written: the next look reads it whole.
                    return
                self._offsets[asked] += len(line)
                yield json.loads(line)

    def until(self, fact: Callable[[], bool], what: str, patience_s: float = _PATIENCE_S) -> None:
        deadline_s = time.monotonic() + patience_s
        self.look()
        while not fact():
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"waited {patience_s:.0f} s in vain until {what}; "
                    f"{len(self.deliveries)} deliveries and {len(self.calls)} calls are open"
                )
            time.sleep(_LOOK_S)
            self.look()

    def go_on(self, for_s: float) -> None:
        """Only follows the logs for a while."""
        until_s = time.monotonic() + for_s
        self.until(lambda: time.monotonic() >= until_s, "a pause is over", for_s + _PATIENCE_S)
