"""Judges the history of a cluster. What differs from one instance:

A delivery starts when it is sent, and may be on its way between instances. Who sends by a token below the newest one is
stale, which its receivers can see (G6): that is promised to be possible after a pause or a cut, and nothing else is
asked of it than of any delivery by its time and its task. Around a fault (a kill, a pause, a cut, a lease that was not
renewed) what was in hand may come again (G5), until the cluster has had time to find itself. And a call that is
repeated, or still open when its task is sent, may write it into a second partition, where nobody knows of the first
(G2: near its instant it may come twice with one delivery_id).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from tests.simulator.checker import CLEAN_STOP_MS, Checker
from tests.simulator.events import Called, Delivered, Event, Fenced, Held, Refused, Replied, Server, Verb
from tests.simulator.known import Known

# After the last fault is over, and the lease of whoever died.
FOUND_MS = 5_000
ENDS = {
    "goes on": "paused",
    "reaches the store": "cut off from the store",
    "reach each other": "cut off from each other",
}
DIGEST_BYTES = 16
FAULTS = ("killed", "lapsed", *ENDS, *ENDS.values())


@dataclass
class Writing:
    """Of one task: how many calls have written it, those that still do, when the last one began or ended, and where it
    was sent from."""

    times: int = 0
    calls: set[int] = field(default_factory=set)
    last_ms: float = 0.0
    first_sent_ms: float = float("inf")
    scopes: set[str] = field(default_factory=set)

    def sent(self, got: Delivered) -> None:
        self.first_sent_ms = min(self.first_sent_ms, got.sent_ms)
        self.scopes.add(got.scope)

    @property
    def may_be_twice(self) -> bool:
        was_open = bool(self.calls) or self.first_sent_ms <= self.last_ms
        return len(self.scopes) > 1 and (self.times > 1 or was_open)


class ClusterChecker(Checker):
    """`stale`: deliveries by an old token. `repeated`: those of tasks that may be written twice."""

    def __init__(self, *, ttl_ms: int, skew_ms: float = 0.0) -> None:
        super().__init__(ordered=False)
        self._skew_ms = skew_ms
        self._refused_ms: dict[tuple[str, int], float] = {}
        self.stale = 0
        self.repeated = 0
        self._writing: defaultdict[str, Writing] = defaultdict(Writing)
        self._quiet_after_ms = ttl_ms + FOUND_MS
        self._faults: set[tuple[str, str]] = set()
        self._quiet_ms = 0.0
        self._fences: dict[str, int] = {}
        self._stopping: dict[str, float] = {}

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
        if event.what == "stopping":
            self._stopping[event.name] = event.at_ms
        elif event.what == "stopped":
            if event.at_ms - self._stopping.pop(event.name, event.at_ms) >= CLEAN_STOP_MS:
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

    def _called(self, called: Called) -> None:
        super()._called(called)
        if called.verb is Verb.SCHEDULE:
            for name in called.names:
                self._writing[name].times += 1
                self._writing[name].calls.add(called.call)
                self._writing[name].last_ms = called.at_ms

    def _replied(self, replied: Replied, called: Called) -> None:
        super()._replied(replied, called)
        if called.verb is Verb.SCHEDULE:
            for name in called.names:
                self._writing[name].calls.discard(called.call)
                self._writing[name].last_ms = replied.at_ms

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
        writing = self._writing[task.name]
        writing.sent(got)
        if self._is_shaken or writing.may_be_twice:
            task.in_hand = None
        if writing.may_be_twice and got.delivery_id in task.ended:
            self.repeated += 1
            task.ended = {}
        super()._is_its_turn(task, replace(got, at_ms=got.sent_ms - self._skew_ms))
        task.over, task.ended, task.in_hand, task.between = over, ended, in_hand, between

    def _numbered(self, task: Known, got: Delivered) -> None:
        task.attempts[got.delivery_id] = max(got.attempt, task.attempts.get(got.delivery_id, 0))

    def _in_hand(self, task: Known, got: Delivered) -> None:
        super()._in_hand(task, replace(got, lease_ms=got.lease_ms - int(3 * self._skew_ms)))
        if self._is_shaken or self._is_stale(got):
            task.in_hand = None

    def _held(self, held: Held) -> None:
        """Who comes back hears only later what it has lost, for the other instances are asked first."""
        if not held.resumed:
            super()._held(replace(held, lease_ms=held.lease_ms - int(3 * self._skew_ms)))
        if self._is_shaken:
            self._release_all()
