"""What was in force when, by what callers were answered: of each schedule, from a creation to its deletion, a life.

A change counts from one moment on, which its answer names, so the spans of a life meet without a gap. What fires in a
span is of the version that was in force then. Only when a life began nobody was told: at some moment between the call
and its answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from tests.chaos.recurring.plan import MINUTE_S, Planned, instants
from tests.chaos.recurring.records import OK, Call, Counts

# By which the clocks of a caller and of an instance may differ on one machine.
CLOCKS_MS = 100


@dataclass(frozen=True, slots=True)
class Span:
    """Of what fires after `begin_ms` and not after `end_ms`. `seconds`: of each minute; none: it is paused."""

    begin_ms: float
    end_ms: float
    version: int
    seconds: tuple[int, ...] = ()

    def has(self, instant_ms: int) -> bool:
        return instant_ms // 1000 % MINUTE_S in self.seconds


@dataclass(frozen=True, slots=True)
class Look:
    """What a schedule counted once it was paused, and what of later instants had been taken by then."""

    at_ms: int
    counts: Counts
    taken: frozenset[int] = frozenset()


@dataclass
class Life:
    """`sure_ms`: it had begun by then. `taken`: instants whose tasks had started before a change that counts from
    before them, with the version of each. `triggers`: the tasks that callers were told of."""

    planned: Planned
    number: int
    sure_ms: float
    spans: list[Span] = field(default_factory=list)
    taken: dict[int, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    triggers: set[str] = field(default_factory=set)
    # A try of a trigger that was given up may have come through although a later one was refused.
    has_late_trigger: bool = False

    @property
    def name(self) -> str:
        return f"{self.planned.schedule_id} (life {self.number})"

    def last_fire_ms(self, instant_ms: int) -> int:
        return instant_ms + self.planned.jitter_ms

    def may(self, instant_ms: int) -> bool:
        """Whether an instant may have a task."""
        return instant_ms in self.taken or any(span.has(instant_ms) for span in self._around(instant_ms))

    def must(self, instant_ms: int) -> bool:
        """Whether it was in force, whenever within its jitter it was to fire."""
        around = self._around(instant_ms)
        is_within = bool(around) and self.last_fire_ms(instant_ms) <= around[-1].end_ms
        return instant_ms > self.sure_ms and is_within and all(span.has(instant_ms) for span in around)

    def _around(self, instant_ms: int) -> list[Span]:
        last_ms = self.last_fire_ms(instant_ms)
        return [span for span in self.spans if span.begin_ms < last_ms and instant_ms <= span.end_ms]

    def at(self, fire_at_ms: int) -> Span | None:
        """What is in force when something fires."""
        return next((span for span in self.spans if span.begin_ms < fire_at_ms <= span.end_ms), None)

    def named(self, until_ms: float) -> list[int]:
        """Instants up to then that are of any span."""
        jitter_ms = self.planned.jitter_ms
        found = {
            each
            for span in self.spans
            for each in instants(span.seconds, span.begin_ms - jitter_ms, min(span.end_ms, until_ms))
            if span.seconds
        }
        return sorted(found)

    def musts(self, until_ms: float) -> Iterator[int]:
        """Those in force that fire up to then."""
        return (each for each in self.named(until_ms) if self.must(each) and self.last_fire_ms(each) <= until_ms)


def lives_of(plan: Iterable[Planned], calls: Iterable[Call]) -> dict[tuple[str, int], Life]:
    """By schedule and life. What was refused changes nothing."""
    made: dict[tuple[str, int], list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.asked_ms):
        if call.outcome == OK and not call.said_again:
            made[call.schedule_id, call.life].append(call)
    planned = {each.schedule_id: each for each in plan}
    lives = {key: _life(planned[key[0]], some) for key, some in made.items() if some[0].verb == "create"}
    for call in calls:
        if call.verb == "trigger" and call.outcome != OK and call.tries > 1 and (call.schedule_id, call.life) in lives:
            lives[call.schedule_id, call.life].has_late_trigger = True
    return lives


def _life(planned: Planned, calls: Sequence[Call]) -> Life:
    created = calls[0]
    life = Life(planned, created.life, created.answered_ms + CLOCKS_MS)
    life.spans.append(Span(created.asked_ms - CLOCKS_MS, inf, 0, created.seconds))
    seconds = created.seconds
    for call in calls[1:]:
        life.taken |= {each: life.taken.get(each, life.spans[-1].version) for each in call.taken}
        seconds = call.seconds or seconds
        _DO.get(call.verb, _nothing)(life, call, seconds)
    return life


def _update(life: Life, call: Call, seconds: tuple[int, ...]) -> None:
    now = life.spans[-1]
    if now.seconds:
        _turn(life, call, seconds, call.version)
    else:
        life.spans[-1] = replace(now, version=call.version)


def _pause(life: Life, call: Call, _: tuple[int, ...]) -> None:
    if life.spans[-1].seconds:
        _turn(life, call, (), life.spans[-1].version)
    life.looks.append(Look(call.since_ms, call.counts, frozenset(life.taken)))


def _resume(life: Life, call: Call, seconds: tuple[int, ...]) -> None:
    """With what was missed: as if there had been no pause."""
    if call.catch_up:
        life.spans[-1] = replace(life.spans[-1], seconds=seconds)
    else:
        _turn(life, call, seconds, life.spans[-1].version)


def _delete(life: Life, call: Call, _: tuple[int, ...]) -> None:
    life.spans[-1] = replace(life.spans[-1], end_ms=call.since_ms)


def _trigger(life: Life, call: Call, _: tuple[int, ...]) -> None:
    life.triggers.add(call.task_id)


def _nothing(life: Life, call: Call, _: tuple[int, ...]) -> None:
    pass


def _turn(life: Life, call: Call, seconds: tuple[int, ...], version: int) -> None:
    """From then on it is so."""
    life.spans[-1] = replace(life.spans[-1], end_ms=call.since_ms)
    life.spans.append(Span(call.since_ms, inf, version, seconds))


_DO = {"update": _update, "pause": _pause, "resume": _resume, "delete": _delete, "trigger": _trigger}
Lives = Mapping[tuple[str, int], Life]
