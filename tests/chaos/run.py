"""Rounds: load, one fault at an instant that hurts, load while it lasts and after it, until everything has arrived;
in the end the verdict from the logs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.chaos.all_faults import ALL_FAULTS
from tests.chaos.books import Books
from tests.chaos.faults import Hit
from tests.chaos.judging import MOST_STALE, Judgement, judged
from tests.chaos.ring import false_answers
from tests.chaos.stage import Setting, Stage
from tests.process.evidence import evidence
from tests.process.kill9.run import LEAST_UNACKNOWLEDGED, LEAST_UNANSWERED
from timerd.client import SyncClient, TaskState, TimerdError
from timerd.demo.records import Kill, Logs, now_ms, read_logs

_BURST = 240
_MOST_UNANSWERED = 150
# Three nodes on one machine are slow to come back.
_PATIENCE_S, _RING_PATIENCE_S = 120.0, 360.0
# What is due after the current bucket is waited for.
_CALLER_S = _END_S = 480.0
_TOP_UP_S = 1.5
# Nothing has arrived for so long, so nothing that must not come is on its way.
_QUIET_S = 1.5
_LOOK_S = 0.25
_ASKS_AT_ONCE = 32
# A worker has to be back within so long of a take-over; what comes later than that after its time has waited longer.
OVERRUN_MS = 5_000
# So long after an instance has lost its lease the same may come again.
_AFTER_LAPSE_MS = 30_000
_OPEN = (TaskState.PENDING, TaskState.IN_FLIGHT, TaskState.RETRYING)


@dataclass(frozen=True, slots=True)
class Round:
    fault: str
    hit: Hit
    # When everything was again as before: what explains duplicates is between `hit.hit_ms` and this.
    over_ms: float
    # Deliveries without a confirmed ack, and calls without an answer, at the instant of the fault.
    unacknowledged: int
    unanswered: int
    trace: dict[str, int]
    # From the fault until the last task that was late by more than a second.
    recovered_ms: float
    most_late_ms: float
    duplicates: int
    # Deliveries that had no confirmed ack at some instant of the fault: the most that may come again.
    allowed: int
    # Leases that ended, also where nobody did anything to them: a pause beyond the lease, as the machine was too busy.
    lapses: int = 0

    @property
    def counts(self) -> bool:
        is_enough = self.unacknowledged >= LEAST_UNACKNOWLEDGED and self.unanswered >= LEAST_UNANSWERED
        return is_enough and all(self.trace.values())

    @property
    def slowest_answer_ms(self) -> float:
        """Of those who were asked while nodes of the store were away."""
        return max((after_ms for _, after_ms in self.hit.answers), default=0.0)

    @property
    def false_answers(self) -> list[str]:
        return false_answers(self.fault, self.hit)

    @property
    def is_overrun(self) -> bool:
        """Whether the machine was too busy for what docs/understand/guarantees.md promises of graceful restarts."""
        return self.most_late_ms >= OVERRUN_MS

    @property
    def is_within(self) -> bool:
        is_explained = ALL_FAULTS[self.fault].explains or self.lapses or self.is_overrun
        return self.duplicates <= (self.allowed if is_explained else 0)

    @property
    def record(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "victims": list(self.hit.victims),
            "note": self.hit.note,
            "lasted_ms": round(self.hit.healed_ms - self.hit.hit_ms),
            "unacknowledged": self.unacknowledged,
            "unanswered": self.unanswered,
            "trace": self.trace,
            "recovered_ms": round(self.recovered_ms),
            "most_late_ms": round(self.most_late_ms),
            "duplicates": self.duplicates,
            "allowed": self.allowed,
            "lapses": self.lapses,
            "overrun": self.is_overrun,
            "slowest_answer_ms": round(self.slowest_answer_ms),
            "false_answers": list(self.false_answers),
            "counts": self.counts,
        }

    def __str__(self) -> str:
        trace = ", ".join(f"{count} {what}" for what, count in self.trace.items())
        verdict = "" if self.counts else ": does not count"
        return (
            f"{self.fault} {','.join(self.hit.victims)} {self.hit.note} for "
            f"{(self.hit.healed_ms - self.hit.hit_ms) / 1000:.1f} s: {self.unacknowledged} deliveries, "
            f"{self.unanswered} calls open; {trace}; again {self.duplicates} of {self.allowed}; late until "
            f"{self.recovered_ms / 1000:.1f} s, at most {self.most_late_ms / 1000:.1f} s{verdict}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    setting: Setting
    rounds: tuple[Round, ...]
    judgement: Judgement
    acknowledged: int
    seconds: float
    # Leases that ended although nobody had done anything: the machine was too busy.
    unprovoked: int
    # What kept a round from its end.
    stuck: str = ""
    # What was written down of the tasks that the verdict names.
    evidence: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        return sum(each.counts for each in self.rounds)

    @property
    def holds(self) -> bool:
        is_within = all(each.is_within for each in self.rounds) and self.most_stale <= MOST_STALE
        is_true = not any(each.false_answers for each in self.rounds)
        return self.judgement.verdict.holds and not self.stuck and is_within and is_true

    @property
    def most_stale(self) -> int:
        """In one round."""
        stale = self.judgement.stale
        return max(
            (sum(r.hit.hit_ms <= each.received_ms <= r.over_ms for each in stale) for r in self.rounds), default=0
        )


class Run:
    """`say` is told of each round."""

    def __init__(self, stage: Stage, faults: Sequence[str], tasks: int, say: Callable[[Round], None]) -> None:
        self._stage = stage
        self._watch = stage.watch
        self._faults = faults
        self._tasks = tasks
        self._say = say
        self._rng = Random(stage.setting.seed)
        self._books = Books()
        self._patience_s = _RING_PATIENCE_S if len(stage.setting.nodes) > 1 else _PATIENCE_S

    def play(self, rounds: int) -> Report:
        begun_s, played, stuck = time.monotonic(), list[Round](), ""
        counted = 0
        try:
            while counted < rounds and len(played) < 2 * rounds + 2:
                played.append(self._round(self._faults[counted % len(self._faults)]))
                counted += played[-1].counts
                self._say(played[-1])
            self._end()
        except TimeoutError as error:
            stuck = str(error)
        logs = read_logs([*self._stage.worker_logs, *self._stage.caller_logs])
        stored = sum(call.verb == "schedule" and call.outcome == "OK" for call in logs.calls)
        judgement, unprovoked = self._judged(logs, played)
        seconds = time.monotonic() - begun_s
        kills = tuple(Kill(each.hit.hit_ms, each.over_ms) for each in played)
        told = tuple(evidence(replace(logs, kills=kills), judgement.verdict))
        return Report(self._stage.setting, tuple(played), judgement, stored, seconds, unprovoked, stuck, told)

    def _judged(self, logs: Logs, played: Sequence[Round]) -> tuple[Judgement, int]:
        """With the number of leases that ended although nobody had done anything: they explain what a fault does."""
        explaining = [each for each in played if ALL_FAULTS[each.fault].explains]
        windows = [Kill(each.hit.hit_ms, each.over_ms) for each in explaining]
        stops = [Kill(each.hit.hit_ms, each.over_ms) for each in explaining if ALL_FAULTS[each.fault].stops]
        ttl_ms = self._stage.setting.ttl_ms
        lapses = [
            Kill(at_ms - 2 * ttl_ms, at_ms + _AFTER_LAPSE_MS)
            for at_ms in self._stage.lapses_ms()
            if not any(window.killed_ms <= at_ms <= window.ready_ms for window in windows)
        ]
        return judged(logs, [*windows, *lapses], [*stops, *lapses], self._stage.handed_over()), len(lapses)

    def _round(self, name: str) -> Round:
        stage, watch, books = self._stage, self._watch, self._books
        fault = ALL_FAULTS[name]
        self._load()
        stage.tell("burst", _BURST)
        watch.until(lambda: len(watch.calls) >= LEAST_UNANSWERED, "enough calls are under way")
        time.sleep(self._rng.uniform(0, 0.03))
        repeats = len(books.repeats)
        stage.tell("bulk", self._tasks // 3)
        hit = fault.inflict(stage, self._rng)
        stage.tell("bulk", self._tasks // 3)
        watch.look()
        unacknowledged, unanswered = watch.deliveries.count_at(hit.hit_ms), watch.calls.count_at(hit.hit_ms)
        self._recover()
        over_ms = now_ms()
        late = [each for each in books.late if each[0] >= hit.hit_ms]
        return Round(
            fault=name,
            hit=hit,
            over_ms=over_ms,
            unacknowledged=unacknowledged,
            unanswered=unanswered,
            trace=fault.trace(stage, books, hit),
            recovered_ms=max((at_ms - hit.hit_ms for at_ms, _ in late), default=0.0),
            most_late_ms=max((late_ms for _, late_ms in late), default=0.0),
            duplicates=len(books.repeats) - repeats,
            allowed=unacknowledged + sum(at_ms >= hit.hit_ms for at_ms in books.arrived_ms),
            lapses=sum(hit.hit_ms <= at_ms <= over_ms for at_ms in stage.lapses_ms()),
        )

    def _load(self) -> None:
        """Until enough is in the hands of workers."""
        watch, asked_s = self._watch, time.monotonic()
        self._stage.tell("bulk", self._tasks // 3)
        fresh = watch.received + LEAST_UNACKNOWLEDGED
        enough = LEAST_UNACKNOWLEDGED + self._rng.randint(20, 60)

        def is_enough() -> bool:
            nonlocal asked_s
            if time.monotonic() > asked_s + _TOP_UP_S and len(watch.calls) < _MOST_UNANSWERED:
                asked_s = time.monotonic()
                self._stage.tell("bulk", 2 * _BURST)
            return len(watch.deliveries) > enough and watch.received > fresh

        watch.until(is_enough, "enough is in hand", self._patience_s)

    def _recover(self) -> None:
        """Until all that was due is there, calls are answered, and what is due now comes in time."""
        looked_s = 0.0

        def is_over() -> bool:
            nonlocal looked_s
            if len(self._watch.calls) >= LEAST_UNANSWERED or time.monotonic() < looked_s + _LOOK_S:
                return False
            looked_s = time.monotonic()
            self._follow()
            return not self._books.owed(now_ms() - _QUIET_S * 1000)

        self._watch.until(is_over, "everything that is due has arrived", self._patience_s)

    def _follow(self) -> None:
        self._books.follow([*self._stage.caller_logs, *self._stage.worker_logs])

    def _end(self) -> None:
        for caller in self._stage.callers:
            caller.tell("end")
        for caller in self._stage.callers:
            if caller.wait(_CALLER_S) != 0:
                raise RuntimeError(f"A caller failed: {caller.errors()[-2000:]}")
        quiet_s, received = time.monotonic(), self._watch.received

        def is_over() -> bool:
            nonlocal quiet_s, received
            if self._watch.received != received:
                quiet_s, received = time.monotonic(), self._watch.received
            if time.monotonic() < quiet_s + _QUIET_S:
                return False
            quiet_s = time.monotonic()
            self._follow()
            return not self._books.owed(1 << 60) and self._have_ended()

        self._watch.until(is_over, "everything has arrived and ended", _END_S)

    def _have_ended(self) -> bool:
        """Whoever lost a delivery on its way never hears of its end: so a user asks."""
        silent = self._books.unconfirmed()
        with SyncClient(self._stage.target(0)) as client, ThreadPoolExecutor(_ASKS_AT_ONCE) as pool:

            def is_over(task_id: str) -> bool:
                try:
                    return client.get(task_id).state not in _OPEN
                except TimerdError:
                    # It is asked again with those that have not ended yet.
                    return False

            over = pool.map(is_over, silent)
            self._books.over.update(task_id for task_id, ended in zip(silent, over, strict=True) if ended)
        return not self._books.unconfirmed()
