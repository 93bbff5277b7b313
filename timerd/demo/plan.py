"""What the callers will ask, drawn from a seed: the same seed asks the same again. Pure.

Half of the tasks are scheduled in bulk at the beginning, the others one by one shortly before they are due, so that
calls of every kind are unanswered when the server is killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

# 500 of 10,000.
_CHANGED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Wanted:
    """A task: when it is asked for and when it is due, in milliseconds from the start."""

    number: int
    ask_ms: int
    fire_ms: int


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A cancel, or a move to another time."""

    verb: Literal["cancel", "move"]
    number: int
    ask_ms: int
    fire_ms: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    bulk: tuple[Wanted, ...]
    singles: tuple[Wanted, ...]
    # In the order of asking.
    changes: tuple[PlannedChange, ...]
    kill_ms: int
    end_ms: int


def make_plan(tasks: int, seconds: int, seed: int) -> Plan:
    rng, end_ms = Random(seed), seconds * 1000
    bulk_count = tasks // 2
    # Everything takes its share of the time, so that a short demo is the same one, only denser.
    bulk = [Wanted(number, 0, rng.randint(end_ms // 10, end_ms)) for number in range(bulk_count)]
    singles = [_single(rng, number, end_ms) for number in range(bulk_count, tasks)]
    return Plan(
        bulk=tuple(bulk),
        singles=tuple(sorted(singles, key=lambda wanted: wanted.ask_ms)),
        changes=tuple(sorted(_changes(rng, bulk, round(tasks * _CHANGED_SHARE), end_ms), key=lambda each: each.ask_ms)),
        kill_ms=end_ms // 2,
        end_ms=end_ms,
    )


def _single(rng: Random, number: int, end_ms: int) -> Wanted:
    fire_ms = rng.randint(end_ms // 10, end_ms)
    return Wanted(number, max(0, fire_ms - rng.randint(end_ms // 20, end_ms // 4)), fire_ms)


def _changes(rng: Random, bulk: list[Wanted], each: int, end_ms: int) -> list[PlannedChange]:
    """Of tasks that are due late enough for the change to have a chance, and were stored in good time before it."""
    candidates = [wanted for wanted in bulk if wanted.fire_ms > end_ms * 3 // 10]
    chosen = rng.sample(candidates, 2 * min(each, len(candidates) // 2))
    half = len(chosen) // 2
    cancels = [PlannedChange("cancel", wanted.number, _before(rng, wanted, end_ms)) for wanted in chosen[:half]]
    return cancels + [_move(rng, wanted, index % 2 == 0, end_ms) for index, wanted in enumerate(chosen[half:])]


def _before(rng: Random, wanted: Wanted, end_ms: int) -> int:
    return rng.randint(end_ms * 3 // 20, wanted.fire_ms - end_ms // 20)


def _move(rng: Random, wanted: Wanted, later: bool, end_ms: int) -> PlannedChange:
    ask_ms = _before(rng, wanted, end_ms)
    if later:
        return PlannedChange("move", wanted.number, ask_ms, min(end_ms, wanted.fire_ms + rng.randint(1, end_ms // 4)))
    return PlannedChange("move", wanted.number, ask_ms, rng.randint((ask_ms + wanted.fire_ms) // 2, wanted.fire_ms))
