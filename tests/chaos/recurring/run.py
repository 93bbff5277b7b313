"""Rounds: schedules come and are changed, a fault hits while calls are under way, and they go on until what comes every
second is on time again; in the end the verdict from the logs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.chaos.all_faults import ALL_FAULTS
from tests.chaos.faults import Hit
from tests.chaos.recurring.judging import Verdict, judged
from tests.chaos.recurring.stage import Pulse, RecurringStage
from tests.chaos.waiting import until
from timerd.demo.records import now_ms

# So many calls are under way when a fault hits, or the round does not count.
LEAST_CALLS = 5
# Schedules come every second; so much behind is on time.
_BEHIND_MS = 3_000
_PATIENCE_S = 240.0
# How long calls go on by themselves before a fault, and after it.
_BEFORE_S, _AFTER_S = (1.0, 4.0), (3.0, 6.0)
_QUIET_S = 8.0
_END_S = 240.0
# What is missing then never comes.
_LATE_S = 180.0


@dataclass(frozen=True, slots=True)
class Round:
    """`open_calls`: under way at the instant of the fault; `behind_ms`: by how much the slowest of what comes every
    second lay behind at most; `occurrences`: tasks that came in it."""

    fault: str
    hit: Hit
    open_calls: int
    trace: dict[str, int]
    recovered_ms: float
    behind_ms: float
    occurrences: int
    lapses: int

    @property
    def counts(self) -> bool:
        return self.open_calls >= LEAST_CALLS and all(self.trace.values())

    @property
    def record(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "victims": list(self.hit.victims),
            "note": self.hit.note,
            "lasted_ms": round(self.hit.healed_ms - self.hit.hit_ms),
            "open_calls": self.open_calls,
            "trace": self.trace,
            "recovered_ms": round(self.recovered_ms),
            "behind_ms": round(self.behind_ms),
            "occurrences": self.occurrences,
            "lapses": self.lapses,
            "counts": self.counts,
        }

    def __str__(self) -> str:
        trace = ", ".join(f"{count} {what}" for what, count in self.trace.items())
        return (
            f"{self.fault} {','.join(self.hit.victims)} {self.hit.note} for "
            f"{(self.hit.healed_ms - self.hit.hit_ms) / 1000:.1f} s: {self.open_calls} calls under way; {trace}; "
            f"{self.occurrences} occurrences, on time after {self.recovered_ms / 1000:.1f} s, "
            f"{self.behind_ms / 1000:.1f} s behind at most{'' if self.counts else ': does not count'}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """`stuck`: what kept the run from its end."""

    rounds: tuple[Round, ...]
    verdict: Verdict
    seconds: float
    stuck: str = ""

    @property
    def counted(self) -> int:
        return sum(each.counts for each in self.rounds)

    @property
    def holds(self) -> bool:
        return self.verdict.holds and not self.stuck


class Run:
    """`say` is told of each round."""

    def __init__(self, stage: RecurringStage, faults: Sequence[str], say: Callable[[Round], None]) -> None:
        self._stage, self._faults, self._say = stage, faults, say
        self._rng = Random(stage.setting.seed)
        self._pulse = Pulse([each.schedule_id for each in stage.plan if each.is_steady])

    def play(self, rounds: int) -> Report:
        begun_s, played, stuck = time.monotonic(), list[Round](), ""
        try:
            until(self._is_on_time, "all schedules come", _PATIENCE_S)
            while len(played) < rounds:
                played.append(self._round(self._faults[len(played) % len(self._faults)]))
                self._say(played[-1])
        except (TimeoutError, AssertionError) as error:
            stuck = str(error)
        stuck = self._end(stuck)
        return Report(tuple(played), self._all_there(), time.monotonic() - begun_s, stuck)

    def _round(self, name: str) -> Round:
        stage, watch, pulse = self._stage, self._stage.watch, self._pulse
        fault, came = ALL_FAULTS[name], pulse.count
        watch.go_on(self._rng.uniform(*_BEFORE_S))
        stage.caller.tell("burst")
        watch.until(lambda: len(watch.calls) >= LEAST_CALLS, "enough calls are under way")
        time.sleep(self._rng.uniform(0, 0.1))
        hit = fault.inflict(stage, self._rng)
        watch.look()
        open_calls = watch.calls.count_at(hit.hit_ms)
        self._follow()
        behind_ms = pulse.behind_ms(now_ms())
        stage.caller.tell("burst")
        until(self._is_on_time, "schedules come on time again", _PATIENCE_S)
        recovered_ms = now_ms() - hit.hit_ms
        watch.go_on(self._rng.uniform(*_AFTER_S))
        self._follow()
        over_ms = now_ms()
        return Round(
            fault=name,
            hit=hit,
            open_calls=open_calls,
            trace=fault.trace(stage, pulse, hit),
            recovered_ms=recovered_ms,
            behind_ms=behind_ms,
            occurrences=pulse.count - came,
            lapses=sum(hit.hit_ms <= at_ms <= over_ms for at_ms in stage.lapses_ms()),
        )

    def _end(self, stuck: str) -> str:
        """All that was changed is paused, and what was due before that has come."""
        try:
            self._stage.caller.tell("end")
            until(lambda: not self._stage.caller.is_running(), "all calls are answered", _END_S)
            code = self._stage.caller.wait()
            assert code == 0, f"The caller failed: {self._stage.caller.errors()[-2000:]}"
            until(self._is_quiet(), "nothing comes any more of what is paused", _END_S)
            until(self._is_on_time, "the others come on time", _PATIENCE_S)
        except (TimeoutError, AssertionError) as error:
            return stuck or str(error)
        return stuck

    def _all_there(self) -> Verdict:
        """What a busy machine brings late is waited for: what never comes is lost."""
        end_ms, deadline_s = now_ms() - _BEHIND_MS, time.monotonic() + _LATE_S
        while True:
            verdict = judged(self._stage.plan, self._stage.logs(), end_ms)
            if not verdict.wrong["S1, each instant"] or time.monotonic() > deadline_s:
                return verdict
            time.sleep(1.0)

    def _is_on_time(self) -> bool:
        self._follow()
        return self._pulse.behind_ms(now_ms()) < _BEHIND_MS

    def _is_quiet(self) -> Callable[[], bool]:
        heard_s, count = time.monotonic(), -1

        def is_quiet() -> bool:
            nonlocal heard_s, count
            self._follow()
            if self._pulse.others != count:
                heard_s, count = time.monotonic(), self._pulse.others
            return time.monotonic() > heard_s + _QUIET_S

        return is_quiet

    def _follow(self) -> None:
        self._pulse.follow(self._stage.worker_logs)
