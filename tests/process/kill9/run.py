"""The run: load, a fault at an instant that hurts, again and again, and in the end the verdict from the logs alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.process.clockstep import ClockStep
from tests.process.evidence import evidence
from tests.process.kill9.faults import FAULTS
from tests.process.kill9.judging import Judgement, judged
from tests.process.kill9.stage import Stage
from timerd.demo.records import DeliveryRecord, Kill, LogReader, Logs, now_ms, read_logs
from timerd.demo.story import stories_of

# What must be open at the instant of a fault, or it does not count.
LEAST_UNACKNOWLEDGED = 100
LEAST_UNANSWERED = 8
# Calls that begin when enough is unacknowledged: the fault comes in the midst of them.
_BURST = 140
# So many tasks for each that a worker is to have in hand: there are two workers, and not all tasks are due soon.
_TASKS_PER_HELD = 3
# Beyond the time within which calls are made again.
_CALLER_S = 90.0
# Not enough in hand by then: more is asked for.
_TOP_UP_S = 1.0
_MOST_UNANSWERED = 50
# Of the faults, those that come as soon as the last one is over: everything is still in hand, nobody has reconnected.
_AT_ONCE_SHARE = 0.15
# Nothing has arrived for so long, so nothing that must not come is on its way.
_QUIET_MS = 500
# Beyond the longest that a worker keeps what it has.
_STILL_S = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`strikes`: faults that must count. `far_ms`: how far ahead the farthest tasks are due."""

    strikes: int
    tasks: int
    seed: int
    folder: Path
    faults: tuple[str, ...] = ("kill",)
    far_ms: int = 4_000
    # After the first answer to a call, until it is made again.
    repeat_within_s: int = 5


@dataclass(frozen=True, slots=True)
class Strike:
    fault: str
    lasted: Kill
    # Deliveries without a confirmed ack, and calls without an answer, at the instant of the fault.
    unacknowledged: int
    unanswered: int
    # The most that one worker had in hand then.
    in_one_hand: int

    @property
    def counts(self) -> bool:
        is_enough = self.unacknowledged >= LEAST_UNACKNOWLEDGED and self.unanswered >= LEAST_UNANSWERED
        return is_enough and self.in_one_hand >= FAULTS[self.fault].least_in_one_hand

    def __str__(self) -> str:
        lasted_ms = self.lasted.ready_ms - self.lasted.killed_ms
        verdict = "counts" if self.counts else "does not count, is repeated"
        return (
            f"{self.fault}: {self.unacknowledged:5d} deliveries unacknowledged ({self.in_one_hand:4d} with one "
            f"worker), {self.unanswered:3d} calls unanswered, over after {lasted_ms:5.0f} ms: {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    settings: Settings
    strikes: tuple[Strike, ...]
    judgement: Judgement
    acknowledged: int
    slowest_answer_ms: float
    seconds: float
    # What was written down of the tasks that the verdict names.
    evidence: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        return sum(strike.counts for strike in self.strikes)

    @property
    def holds(self) -> bool:
        return self.judgement.verdict.holds and self.counted >= self.settings.strikes


class Run:
    """One run on one stage. `say` is told of each fault, with how many count so far."""

    def __init__(self, settings: Settings, stage: Stage, say: Callable[[str, int], None]) -> None:
        self._settings = settings
        self._stage = stage
        self._watch = stage.watch
        self._say = say
        self._rng = Random(settings.seed)

    def play(self) -> Report:
        begun_s, strikes = time.monotonic(), list[Strike]()
        counted = 0
        while counted < self._settings.strikes and len(strikes) <= 3 * self._settings.strikes:
            rounds, which = divmod(counted, len(self._settings.faults))
            # Each fault in both forms, in turn.
            strikes.append(self._strike(self._settings.faults[which], (rounds + which) % 2 == 1))
            counted += strikes[-1].counts
            self._say(f"{len(strikes):3d} {strikes[-1]}", counted)
        self._stage.caller.tell("end")
        if self._stage.caller.wait(_CALLER_S + self._settings.repeat_within_s) != 0:
            raise RuntimeError(f"The caller failed: {self._stage.caller.errors()[-2000:]}")
        self._settle()
        logs = self._logs()
        stored = sum(call.verb == "schedule" and call.outcome == "OK" for call in logs.calls)
        slowest_ms = max(call.answered_ms - call.asked_ms for call in logs.calls)
        judgement, seconds = _judged(logs, strikes), time.monotonic() - begun_s
        told = evidence(replace(logs, kills=tuple(each.lasted for each in strikes)), judgement.verdict)
        return Report(self._settings, tuple(strikes), judgement, stored, slowest_ms, seconds, tuple(told))

    def state(self) -> str:
        """Of a server that does not answer."""
        server = self._stage.server
        return f"the server said: {server.where()}" if server.is_running() else "the server had ended"

    def _strike(self, name: str, beyond: bool) -> Strike:
        fault, watch = FAULTS[name], self._watch
        self._load(fault.least_in_one_hand)
        self._stage.caller.tell(f"burst {_BURST}")
        watch.until(lambda: len(watch.calls) >= LEAST_UNANSWERED, "enough calls are under way")
        time.sleep(self._rng.uniform(0, 0.03))
        hands = list(self._stage.holders.values())
        lasted = fault.inflict(self._stage, self._rng, beyond)
        watch.look()
        # By the instants in the logs: what came before the fault, and what followed it only later.
        at_ms = lasted.killed_ms
        in_one_hand = max(hand.count_at(at_ms) for hand in hands)
        return Strike(name, lasted, watch.deliveries.count_at(at_ms), watch.calls.count_at(at_ms), in_one_hand)

    def _load(self, least_in_one_hand: int) -> None:
        """Until enough is in the hands of workers."""
        watch, rng = self._watch, self._rng
        at_once = rng.random() < _AT_ONCE_SHARE
        if not at_once:
            watch.until(lambda: len(watch.calls) < LEAST_UNANSWERED, "earlier calls are answered")
        share = max(2 * _BURST, -(-self._settings.tasks // self._settings.strikes))
        tasks = max(share - _BURST, _TASKS_PER_HELD * least_in_one_hand)
        self._stage.caller.tell(f"bulk {tasks}")
        asked_s, more = time.monotonic(), max(_BURST, least_in_one_hand // 2)
        fresh = watch.received + LEAST_UNACKNOWLEDGED
        enough = LEAST_UNACKNOWLEDGED + rng.randint(10, 40)

        def is_enough_in_hand() -> bool:
            nonlocal asked_s, more
            # A server that cannot keep up is not asked for more.
            if time.monotonic() > asked_s + _TOP_UP_S and len(watch.calls) < _MOST_UNANSWERED:
                asked_s = time.monotonic()
                self._stage.caller.tell(f"bulk {more}")
                more += more // 4
            in_one_hand = max(map(len, self._stage.holders.values()))
            is_enough = len(watch.deliveries) > enough and in_one_hand > 1.05 * least_in_one_hand
            return is_enough and (at_once or watch.received > fresh)

        watch.until(is_enough_in_hand, "enough is in hand")

    def _settle(self) -> None:
        """Until everything that must arrive has, and a little longer, so that what must not come has its chance."""
        calls = self._logs().calls
        must = {story.number for story in stories_of(calls).values() if story.must_arrive}
        last_ms = float(max(call.fire_at_ms for call in calls))
        changed_s, changes = time.monotonic(), (0, 0)
        arrived: set[int] = set()
        readers = [LogReader(log) for log in self._stage.worker_logs]

        def is_over() -> bool:
            nonlocal last_ms, changed_s, changes
            if (now := (self._watch.received, len(self._watch.deliveries))) != changes:
                changed_s, changes = time.monotonic(), now
            new = [each for reader in readers for each in reader.read() if isinstance(each, DeliveryRecord)]
            arrived.update(each.number for each in new)
            last_ms = max([last_ms, *(each.received_ms for each in new)])
            return now_ms() > last_ms + _QUIET_MS and must <= arrived and not self._is_awaited(changed_s)

        try:
            self._watch.until(is_over, "everything has arrived")
        except TimeoutError as error:
            # The verdict names what is missing.
            self._say(str(error), self._settings.strikes)

    def _is_awaited(self, changed_s: float) -> bool:
        """Whether a worker has something in hand that it will acknowledge. What was cancelled while a worker had it and
        then lost in a crash nobody ever acknowledges: so not where nothing has come or ended for longer than that."""
        is_open = any(len(hand) for hand in self._stage.holders.values()) and len(self._watch.deliveries) > 0
        return is_open and time.monotonic() < changed_s + self._stage.longest_hold_s + _STILL_S

    def _logs(self) -> Logs:
        return read_logs([self._stage.folder / "caller.log", *self._stage.worker_logs])


def _judged(logs: Logs, strikes: list[Strike]) -> Judgement:
    explaining = [each for each in strikes if FAULTS[each.fault].explains]
    stops = [each.lasted for each in explaining if FAULTS[each.fault].stops]
    return judged(logs, [each.lasted for each in explaining], stops)


def run(settings: Settings, say: Callable[[str, int], None]) -> Report:
    clock = ClockStep(settings.folder) if "clock" in settings.faults else None
    faults = [FAULTS[name] for name in settings.faults]
    with_stops, hold_ms = any(fault.stops for fault in faults), max(fault.hold_ms for fault in faults)
    stage = Stage(
        settings.folder,
        settings.seed,
        settings.far_ms,
        hold_ms,
        with_stops=with_stops,
        clock=clock,
        repeat_within_s=settings.repeat_within_s,
    )
    playing = Run(settings, stage, say)
    with stage.running():
        try:
            return playing.play()
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {playing.state()}") from error
