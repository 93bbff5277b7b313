"""What the clients in Python have in common: one line in, what to play; one line out, when each job has started."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Play:
    """`jobs`: customer, due_s, takes_s each; `begin_s`: the instant of due 0; `wait` until it is over, or all of the
    jobs in `awaited` have started."""

    target: str
    jobs: Sequence[tuple[str, float, float]]
    slots: int
    begin_s: float
    seconds: float
    awaited: frozenset[int]
    started: dict[int, float] = field(default_factory=dict)

    def start(self, place: int) -> float:
        """How long its handler takes. A second start does not count."""
        self.started.setdefault(place, time.time() - self.begin_s)
        return self.jobs[place][2]

    @property
    def is_over(self) -> bool:
        return self.awaited <= self.started.keys() or time.time() > self.begin_s + self.seconds


def played(run: Callable[[Play], None]) -> None:
    given: dict[str, Any] = json.loads(sys.stdin.readline())
    given.pop("do")
    play = Play(**{**given, "awaited": frozenset(given["awaited"])})
    run(play)
    print(json.dumps({"started": sorted(play.started.items())}), flush=True)
