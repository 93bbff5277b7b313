"""The schedules of a run: short ones of all kinds, so that a round of half a minute has hundreds of occurrences.

Each comes at some seconds of the minute. What instants that makes is said here once more, by itself, so that a judge
does not take it from the code that it judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from timerd.client import NewSchedule

QUEUES = ("recurring", "recurring-apart")
MINUTE_S = 60
# They divide the minute, so that a period of so many seconds always comes at the same seconds of it.
_PERIODS_S = (3, 4, 5, 6, 10, 12)
_JITTER_S = 0.7
_MOST = 12
# Of those that come every second.
_STEADY = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule as it is created. `seconds`: of each minute, at which it comes; `is_steady`: nothing changes it;
    `hold_ms`: how long its worker takes, at least and at most."""

    schedule_id: str
    seconds: tuple[int, ...]
    catch_up: str = "all"
    overlap: str = "allow"
    jitter_ms: int = 0
    max_count: int = 0
    is_steady: bool = False
    hold_ms: tuple[int, int] = (0, 0)

    @property
    def queue(self) -> str:
        return QUEUES[self.overlap != "allow"]

    @property
    def is_exact(self) -> bool:
        """Whether each instant has a task that never expires."""
        return self.overlap == "allow" and self.catch_up == "all"

    def message(self, payload: str, seconds: Sequence[int]) -> Any:  # noqa: ANN401 - of protobuf
        """What creates it, or what an update takes its spec from."""
        return NewSchedule(
            self.schedule_id,
            queue=self.queue,
            payload=payload,
            catch_up=self.catch_up,
            overlap=self.overlap,
            max_count=self.max_count,
            **when(seconds, self.jitter_ms),
        ).message


def every(period_s: int) -> tuple[int, ...]:
    return tuple(range(0, MINUTE_S, period_s))


def when(seconds: Sequence[int], jitter_ms: int) -> dict[str, Any]:
    """A period where it is one, else a cron expression with seconds."""
    period_s = MINUTE_S // len(seconds)
    is_period = tuple(seconds) == every(period_s)
    spec: dict[str, Any] = (
        {"every": period_s} if is_period else {"cron": f"{','.join(map(str, sorted(seconds)))} * * * * *"}
    )
    return {**spec, "jitter": jitter_ms / 1000} if jitter_ms else spec


def instants(seconds: Sequence[int], after_ms: float, until_ms: float) -> Iterator[int]:
    """Those after the one and not after the other."""
    there, second = set(seconds), int(after_ms // 1000) + 1
    while second * 1000 <= until_ms:
        if second % MINUTE_S in there:
            yield second * 1000
        second += 1


def some_seconds(rng: Random) -> tuple[int, ...]:
    """A period, or as many seconds anywhere in the minute."""
    seconds = every(rng.choice(_PERIODS_S))
    return seconds if rng.random() < 0.5 else tuple(sorted(rng.sample(range(MINUTE_S), len(seconds))))


def plan(rng: Random, of_each: int) -> list[Planned]:
    """So many of each kind, and more of those that come every second."""
    kinds: dict[str, dict[str, Any]] = {
        "steady": {"seconds": every(1), "is_steady": True},
        "often": {},
        "jitter": {"jitter_ms": int(1000 * _JITTER_S)},
        "latest": {"catch_up": "latest"},
        "few": {"max_count": _MOST},
        "skip": {"overlap": "skip", "hold_ms": (100, 3_500)},
        "one": {"overlap": "buffer_one", "hold_ms": (100, 3_500)},
        "all": {"overlap": "buffer_all", "hold_ms": (100, 2_500)},
    }
    return [
        Planned(f"{kind}-{n}", **{"seconds": some_seconds(rng), **fields})
        for kind, fields in kinds.items()
        for n in range(of_each * (_STEADY if fields.get("is_steady") else 1))
    ]
