"""The logs of a replay, as JSON lines: what the caller asked and was answered, what the worker received, and who was
killed on the way.

Each process writes its own file with its own clock, a line when it happens; the oracle reads them and nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, TypeVar

CALLS = "calls.jsonl"
DELIVERIES = "deliveries.jsonl"
CRASHES = "crashes.jsonl"
PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """What was replayed, and how its instants lie on the wall clock."""

    day: str
    lead_ms: int
    speed: int
    data_start_ms: int
    wall_start_ms: int
    queue: str


@dataclass(frozen=True, slots=True)
class Call:
    """`outcome`: OK (schedule, move), a CancelOutcome (cancel), REFUSED where the answer says that nothing was done,
    UNKNOWN where no answer came. `reason`: of a refusal. `asked_fire_at_ms` is 0 for a cancel."""

    flight_id: str
    verb: Literal["schedule", "move", "cancel"]
    asked_ms: float
    answered_ms: float
    outcome: str
    reason: str = ""
    task_id: str = ""
    asked_fire_at_ms: int = 0
    fire_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery, as the worker saw it."""

    flight_id: str
    task_id: str
    delivery_id: str
    attempt: int
    fire_at_ms: int
    received_ms: float


@dataclass(frozen=True, slots=True)
class Crash:
    """When an instance was killed, and when it served again."""

    killed_ms: float
    back_ms: float


Line = TypeVar("Line", Call, Received, Crash)


def now_ms() -> float:
    """This process's own clock, with the fraction."""
    return time.time_ns() / 1e6


class LogWriter:
    """Appends lines; each is with the operating system before the process goes on."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, lines: Iterable[Call | Received | Crash]) -> None:
        self._file.write("".join(json.dumps(asdict(line)) + "\n" for line in lines))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_log(path: Path, kind: type[Line]) -> list[Line]:
    """A line that is still being written is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [kind(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]


def write_plan(folder: Path, plan: Plan) -> None:
    (folder / PLAN).write_text(json.dumps(asdict(plan)) + "\n", encoding="utf-8")


def read_plan(folder: Path) -> Plan:
    return Plan(**json.loads((folder / PLAN).read_text(encoding="utf-8")))
