"""Judges the history of a cluster. What differs from one instance:

A delivery starts when it is sent, and may be on its way between instances. Who sends by a token below the newest one is
stale, which its receivers can see (G6): that is promised to be possible after a pause or a cut, and nothing else is
asked of it than of any delivery by its time and its task. Around a fault (a kill, a pause, a cut, a lease that was not
renewed) what was in hand may come again (G5), until the cluster has had time to find itself.
"""

from __future__ import annotations

from dataclasses import replace

from tests.simulator.checker import CLEAN_STOP_MS, Checker
from tests.simulator.events import Delivered, Event, Fenced, Held, Refused, Server
from tests.simulator.known import Known
from timerd.services.engine.expired import CLOCKS_APART_MS

# After the last fault is over, and the lease of whoever died.
FOUND_MS = 5_000
ENDS = {
    "goes on": "paused",
    "reaches the store": "cut off from the store",
    "reach each other": "cut off from each other",
}
DIGEST_BYTES = 16
FAULTS = ("killed", "lapsed", *ENDS, *ENDS.values())


class ClusterChecker(Checker):
    """`stale`: deliveries by an old token."""

    def __init__(
        self, ttl_ms: int, skew_ms: float = 0.0, way_ms: float = 0.0, clean_stop_ms: int = CLEAN_STOP_MS
    ) -> None:
        super().__init__(ordered=False)
        self._clean_stop_ms = clean_stop_ms
        self._skew_ms = skew_ms
        self._way_ms = way_ms
        # When an instance has come last.
        self._came_ms = 0.0
        self._refused_ms: dict[tuple[str, int], float] = {}
        self.stale = 0
        self._quiet_after_ms = ttl_ms + FOUND_MS
        self._faults: set[tuple[str, str]] = set()
        self._quiet_ms = 0.0
        self._fences: dict[str, int] = {}
        self._stopping: dict[str, float] = {}

    @property
    def _unsure_ms(self) -> int:
        """What a worker says of a lease may be on its way for so long, and that the lease was its own. An instance that
        has just come hears it by a stream that has to be opened first, there and back: what does not reach the holder
        before the lease is over may come again (docs/understand/guarantees.md, "on an overrun machine")."""
        has_just_come = self._now_ms < self._came_ms + 4 * self._way_ms
        return int(3 * self._skew_ms + (4 if has_just_come else 2) * self._way_ms)

    @property
    def _clocks_apart_ms(self) -> float:  # type: ignore[override]
        return CLOCKS_APART_MS + 2 * self._skew_ms

    @property
    def _is_shaken(self) -> bool:
        return bool(self._faults) or self._now_ms < self._quiet_ms

    def _other(self, event: Event) -> None:
        if isinstance(event, Fenced):
            if event.token <= self._fences.get(event.scope, 0):
                self._wrong(f"I3: the token of {event.scope} went from {self._fences[event.scope]} to {event.token}")
            self._fences[event.scope] = event.token
        elif isinstance(event, Refused):
            self._refused_ms.setdefault((event.scope, event.token), event.at_ms)

    def _server(self, event: Server) -> None:
        self._all_over |= event.what == "all over"
        if event.what == "started":
            self._came_ms = event.at_ms
        elif event.what == "stopping":
            self._stopping[event.name] = event.at_ms
        elif event.what == "stopped":
            if event.at_ms - self._stopping.pop(event.name, event.at_ms) >= self._clean_stop_ms:
                self._shake()
        elif event.what in FAULTS:
            self._stopping.pop(event.name, None)
            if event.what in ENDS.values():
                self._faults.add((event.what, event.name))
            self._faults.discard((ENDS.get(event.what, ""), event.name))
            if event.what == "killed":
                self._faults -= {fault for fault in self._faults if fault[1] == event.name}
            self._shake()
        self._is_stopping = bool(self._stopping)

    # -- callers --------------------------------------------------------------------------------------------------

    def _shake(self) -> None:
        self._quiet_ms = self._now_ms + self._quiet_after_ms
        self._crashed_ms = self._now_ms
        self._release_all()

    def _release_all(self) -> None:
        for task in self._tasks.values():
            task.in_hand, task.acking = None, False

    def _was_sent(self, task: Known, answer: str) -> bool:
        """It may be on its way, or have been lost there."""
        is_due = min(task.asked) <= self._now_ms + self._skew_ms
        return super()._was_sent(task, answer) or (answer == "IN_FLIGHT" and is_due)

    # -- deliveries -----------------------------------------------------------------------------------------------

    def _is_stale(self, got: Delivered) -> bool:
        return got.token < self._fences.get(got.scope, 0)

    def _may_start(self, task: Known, got: Delivered) -> None:
        """By the clock of whoever sent it, which may be ahead by `skew_ms` (G4)."""
        if got.sent_ms > self._refused_ms.get((got.scope, got.token), got.sent_ms):
            self._wrong(f"I4: {task.name} was sent by a holder whose mark had been refused")
        if any(known[:DIGEST_BYTES] != got.delivery_id[:DIGEST_BYTES] for known in task.attempts):
            self._wrong(f"I7: {task.name} is two tasks")
        super()._may_start(task, replace(got, sent_ms=got.sent_ms + self._skew_ms))

    def _is_its_turn(self, task: Known, got: Delivered) -> None:
        """By what was known when it was sent."""
        got = replace(got, sent_ms=got.sent_ms - self._skew_ms)
        if self._is_stale(got):
            self.stale += 1
            return
        ended_ms = task.ended_ms.get(got.delivery_id, 0.0)
        was_sent_before = bool(task.over) and got.sent_ms <= task.over_ms
        over, ended, in_hand, between = task.over, task.ended, task.in_hand, task.between
        task.between = [(lo - self._skew_ms, hi + self._skew_ms) for lo, hi in between]
        if was_sent_before:
            task.over = ""
        if ended_ms >= got.sent_ms:
            task.ended = {}
        if self._is_shaken:
            task.in_hand = None
        super()._is_its_turn(task, replace(got, at_ms=got.sent_ms - self._skew_ms))
        task.over, task.ended, task.in_hand, task.between = over, ended, in_hand, between

    def _numbered(self, task: Known, got: Delivered) -> None:
        task.attempts[got.delivery_id] = max(got.attempt, task.attempts.get(got.delivery_id, 0))

    def _in_hand(self, task: Known, got: Delivered) -> None:
        super()._in_hand(task, replace(got, lease_ms=got.lease_ms - self._unsure_ms))
        if self._is_shaken or self._is_stale(got):
            task.in_hand = None

    def _held(self, held: Held) -> None:
        """Who comes back hears only later what it has lost, for the other instances are asked first."""
        if not held.resumed:
            super()._held(replace(held, lease_ms=held.lease_ms - self._unsure_ms))
        if self._is_shaken:
            self._release_all()
