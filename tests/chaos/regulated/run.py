"""Rounds: load, a fault while calls are under way and tasks in hand, load until all that is due has arrived and ended;
in the end the verdict from the logs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.chaos.all_faults import ALL_FAULTS
from tests.chaos.faults import Hit
from tests.chaos.regulated.judging import Verdict, judged
from tests.chaos.regulated.records import Seen, Window
from tests.chaos.regulated.stage import RegulatedBooks, RegulatedStage
from tests.chaos.waiting import until
from timerd.client import SyncClient, TaskState, TimerdError
from timerd.demo.records import now_ms

# So many calls are under way and tasks in hand when a fault hits, or the round does not count.
LEAST_CALLS, LEAST_IN_HAND = 5, 2
_BURST = 60
_TOP_UP_S = 1.5
_PATIENCE_S = 240.0
_END_S = 240.0
# Nothing has begun for so long, so nothing that must not come is on its way.
_QUIET_S = 3.0
_DUE_MS = 1_500
# Of what an instance said that did not start.
_LONGEST = 400
_ASKS_AT_ONCE = 8
# So long around the loss of a lease the same may come again.
_BEFORE_LAPSE_TTLS, _AFTER_LAPSE_MS = 2, 30_000


@dataclass(frozen=True, slots=True)
class Round:
    """`open_calls`, `in_hand`: at the instant of the fault; `attempts`: that began in it."""

    fault: str
    hit: Hit
    open_calls: int
    in_hand: int
    trace: dict[str, int]
    recovered_ms: float
    attempts: int
    lapses: int

    @property
    def counts(self) -> bool:
        return self.open_calls >= LEAST_CALLS and self.in_hand >= LEAST_IN_HAND and all(self.trace.values())

    @property
    def record(self) -> dict[str, Any]:
        return {
            "fault": self.fault,
            "victims": list(self.hit.victims),
            "note": self.hit.note,
            "lasted_ms": round(self.hit.healed_ms - self.hit.hit_ms),
            "open_calls": self.open_calls,
            "in_hand": self.in_hand,
            "trace": self.trace,
            "recovered_ms": round(self.recovered_ms),
            "attempts": self.attempts,
            "lapses": self.lapses,
            "counts": self.counts,
        }

    def __str__(self) -> str:
        trace = ", ".join(f"{count} {what}" for what, count in self.trace.items())
        return (
            f"{self.fault} {','.join(self.hit.victims)} {self.hit.note} for "
            f"{(self.hit.healed_ms - self.hit.hit_ms) / 1000:.1f} s: {self.open_calls} calls, {self.in_hand} in hand; "
            f"{trace}; {self.attempts} attempts, over after {self.recovered_ms / 1000:.1f} s"
            f"{'' if self.counts else ': does not count'}"
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
    """`tasks`: scheduled in a round, about; `say` is told of each."""

    def __init__(self, stage: RegulatedStage, faults: Sequence[str], tasks: int, say: Callable[[Round], None]) -> None:
        self._stage, self._faults, self._tasks, self._say = stage, faults, tasks, say
        self._rng = Random(stage.setting.seed)
        self._books = RegulatedBooks()

    def play(self, rounds: int) -> Report:
        begun_s, played, stuck = time.monotonic(), list[Round](), ""
        try:
            while len(played) < rounds:
                played.append(self._round(self._faults[len(played) % len(self._faults)]))
                self._say(played[-1])
            self._end()
        except (TimeoutError, AssertionError) as error:
            stuck = str(error)[:_LONGEST]
        self._stage.note_given()
        self._note_lapses()
        return Report(tuple(played), judged(self._stage.logs()), time.monotonic() - begun_s, stuck)

    def _round(self, name: str) -> Round:
        stage, watch, books, fault = self._stage, self._stage.watch, self._books, ALL_FAULTS[name]
        begun = books.begun
        until(self._load(), "enough is in hand", _PATIENCE_S)
        watch.until(self._asking(), "enough calls are under way", _PATIENCE_S)
        time.sleep(self._rng.uniform(0, 0.1))
        stage.tell("bulk", self._tasks // 3)
        hit = fault.inflict(stage, self._rng)
        stage.tell("bulk", self._tasks // 3)
        watch.look()
        open_calls = watch.calls.count_at(hit.hit_ms)
        until(self._is_over, "everything that is due has arrived and ended", _PATIENCE_S)
        over_ms = now_ms()
        stage.notes.write(Window(hit.hit_ms, over_ms, fault.stops, fault.explains))
        return Round(
            fault=name,
            hit=hit,
            open_calls=open_calls,
            in_hand=books.in_hand_at(hit.hit_ms),
            trace=fault.trace(stage, books, hit),
            recovered_ms=over_ms - hit.hit_ms,
            attempts=books.begun - begun,
            lapses=sum(hit.hit_ms <= at_ms <= over_ms for at_ms in stage.lapses_ms()),
        )

    def _load(self) -> Callable[[], bool]:
        """Again and again, until enough is in the hands of workers."""
        told_s = 0.0

        def is_enough() -> bool:
            nonlocal told_s
            if time.monotonic() > told_s + _TOP_UP_S:
                told_s = time.monotonic()
                self._stage.tell("bulk", self._tasks // 3)
            self._follow()
            return self._books.in_hand_at(now_ms()) >= LEAST_IN_HAND + 2

        return is_enough

    def _asking(self) -> Callable[[], bool]:
        """Again and again, until so many are under way at a time."""
        told_s = 0.0

        def is_enough() -> bool:
            nonlocal told_s
            if time.monotonic() > told_s + _TOP_UP_S:
                told_s = time.monotonic()
                self._stage.tell("burst", _BURST)
            return len(self._stage.watch.calls) >= LEAST_CALLS

        return is_enough

    def _is_over(self) -> bool:
        self._stage.watch.look()
        self._follow()
        is_asking = len(self._stage.watch.calls) >= LEAST_CALLS
        return not (is_asking or self._books.owed(int(now_ms()) - _DUE_MS) or self._books.unfinished())

    def _follow(self) -> None:
        self._books.follow(self._stage.caller_logs)
        self._books.follow_workers(self._stage.worker_logs)

    # -- the end --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        for caller in self._stage.callers:
            caller.tell("end")
        for caller in self._stage.callers:
            code = caller.wait(_END_S)
            assert code == 0, f"A caller failed: {caller.errors()[-2000:]}"
        until(self._has_all, "everything has arrived and ended", _END_S)
        until(self._is_quiet(), "nothing begins any more", _END_S)
        until(self._are_dead, "what fails each time is a dead letter", _END_S)

    def _has_all(self) -> bool:
        self._follow()
        return not (self._books.owed(1 << 60) or self._books.unfinished())

    def _is_quiet(self) -> Callable[[], bool]:
        since_s, begun = time.monotonic(), self._books.begun

        def is_quiet() -> bool:
            nonlocal since_s, begun
            self._follow()
            if self._books.begun != begun:
                since_s, begun = time.monotonic(), self._books.begun
            return time.monotonic() > since_s + _QUIET_S

        return is_quiet

    def _are_dead(self) -> bool:
        """What the server says of them is written down once they have ended."""
        doomed = self._books.doomed()
        with SyncClient(self._stage.target(0)) as client, ThreadPoolExecutor(_ASKS_AT_ONCE) as pool:
            states = dict(zip(doomed, pool.map(lambda task_id: _state(client, task_id), doomed.values()), strict=True))
        is_over = all(state not in _NOT_YET for state in states.values())
        if is_over:
            for number, state in states.items():
                self._stage.notes.write(Seen(number, state))
        return is_over

    def _note_lapses(self) -> None:
        before_ms = _BEFORE_LAPSE_TTLS * self._stage.setting.ttl_ms
        for at_ms in self._stage.lapses_ms():
            self._stage.notes.write(Window(at_ms - before_ms, at_ms + _AFTER_LAPSE_MS, stops=True))


_NOT_YET = ("", *(each.name for each in (TaskState.PENDING, TaskState.IN_FLIGHT, TaskState.RETRYING)))


def _state(client: SyncClient, task_id: str) -> str:
    """Empty where nobody has answered."""
    try:
        return client.get(task_id).state.name
    except TimerdError:
        return ""
