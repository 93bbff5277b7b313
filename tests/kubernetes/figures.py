"""What was seen in a scene, judged from what callers and workers wrote down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.chaos.judging import Judgement, judged
from tests.kubernetes.crowd import Done
from timerd.demo.records import Kill, Logs

_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """`broken`: sentences, what did not hold; empty where everything did."""

    scene: str
    facts: dict[str, Any]
    broken: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.broken

    @property
    def record(self) -> dict[str, Any]:
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the scene promises. None: it says nothing of it."""

    p99_ms: float | None = None
    most_ms: float | None = None
    # Deliveries made again for which there was no confirmed ack.
    duplicates: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What was written down, and what was done to the instances meanwhile (`began_ms` to `ended_ms`)."""

    rate: int
    logs: Logs
    done: Sequence[Done]
    began_ms: float
    ended_ms: float
    faults: Sequence[Kill] = field(default=())


def figures(scene: str, load: Load, bounds: Bounds) -> Figures:
    judgement = judged(load.logs, load.faults, load.faults)
    late = lateness_ms(load)
    facts = {
        "rate": load.rate,
        "lasted_s": round((load.ended_ms - load.began_ms) / 1000, 1),
        "acknowledged": judgement.verdict.scheduled,
        "unanswered": judgement.verdict.unanswered,
        "arrived": judgement.verdict.fired,
        "lost": len(judgement.verdict.violations["lost"]),
        "early": len(judgement.verdict.violations["early"]),
        "duplicates": judgement.verdict.duplicates,
        "stale": len(judgement.stale),
        "p50_ms": round(late[len(late) // 2], 1),
        "p99_ms": round(late[len(late) * 99 // 100], 1),
        "most_ms": round(late[-1], 1),
        **in_hand(load),
    }
    return Figures(scene, facts, tuple(broken(judgement, facts, bounds)))


def lateness_ms(load: Load) -> list[float]:
    """Of what was due while it lasted, ascending: what is before and after would only make it look better."""
    asked_ms = {call.number: call.answered_ms for call in load.logs.calls}
    seen: dict[int, float] = {}
    for each in load.logs.deliveries:
        due_ms = max(each.fire_at_ms, asked_ms.get(each.number, 0.0))
        if load.began_ms <= due_ms <= load.ended_ms:
            seen[each.number] = min(each.received_ms - due_ms, seen.get(each.number, float("inf")))
    return sorted(max(0.0, value) for value in seen.values()) or [0.0]


def in_hand(load: Load) -> dict[str, int]:
    """Handlers that ran when it began or while it lasted: those of some seconds, and those beyond a pod's grace."""
    running = [each for each in load.done if each.ended_ms > load.began_ms and each.began_ms < load.ended_ms]
    lasted_s = [(each.ended_ms - each.began_ms) / 1000 for each in running]
    return {"slow": sum(4 < each < 60 for each in lasted_s), "beyond_grace": sum(each > 120 for each in lasted_s)}


def broken(judgement: Judgement, facts: dict[str, Any], bounds: Bounds) -> list[str]:
    found = [case for cases in judgement.verdict.violations.values() for case in cases[:_EXAMPLES]]
    limits = {"p99_ms": bounds.p99_ms, "most_ms": bounds.most_ms, "duplicates": bounds.duplicates}
    for name, limit in limits.items():
        if limit is not None and facts[name] > limit:
            found.append(f"{name} is {facts[name]}, allowed is {limit}")
    return found
