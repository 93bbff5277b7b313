"""What callers and workers write down of schedules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.lines import Tail

OK = "OK"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a schedule says of its instants."""

    created: int = 0
    missed: int = 0
    skipped: int = 0
    waiting: int = 0

    @property
    def instants(self) -> int:
        return self.created + self.missed + self.skipped + self.waiting


@dataclass(frozen=True, slots=True)
class Call:
    """One that was repeated with its request_id until it was answered. `life`: how often a schedule of this id was
    created up to then; `version`: how often it was updated, with this call; `seconds`: as `Planned` has them;
    `since_ms`, `taken`: from when on it counts, and which later instants had started, as answered; `task_id`: that of a
    trigger; `said_again`: what a repeat was answered where it was not the same."""

    verb: str
    schedule_id: str
    life: int
    asked_ms: float
    answered_ms: float
    outcome: str = OK
    tries: int = 1
    version: int = 0
    seconds: tuple[int, ...] = ()
    since_ms: int = 0
    taken: tuple[int, ...] = ()
    catch_up: bool = False
    task_id: str = ""
    counts: Counts = Counts()
    said_again: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A handler was called. `reason`: why there is a task; `scope`, `token`: whose delivery it is (G6)."""

    schedule_id: str
    life: int
    version: int
    instant_ms: int
    fire_at_ms: int
    reason: str
    task_id: str
    delivery_id: str
    attempt: int
    at_ms: float
    scope: str = ""
    token: int = 0

    @property
    def is_trigger(self) -> bool:
        return self.reason == "TRIGGER"


@dataclass(frozen=True, slots=True)
class Ended:
    """A handler has returned, so that its delivery is acknowledged next."""

    task_id: str
    attempt: int
    at_ms: float


Record = Call | Begun | Ended
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in (Call, Begun, Ended)}


class Reader:
    """Reads what was appended since it last looked."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)

    def read(self) -> list[Record]:
        return [_record_of(fields) for fields in self._tail.read()]


def _record_of(fields: dict[str, Any]) -> Record:
    kind = _KINDS[fields.pop("kind")]
    if kind is Call:
        fields["counts"] = Counts(**fields["counts"])
        fields["seconds"], fields["taken"] = tuple(fields["seconds"]), tuple(fields["taken"])
    return kind(**fields)


@dataclass(frozen=True, slots=True)
class Logs:
    """Of a run."""

    calls: tuple[Call, ...] = ()
    begun: tuple[Begun, ...] = ()
    ended: tuple[Ended, ...] = ()


def read_logs(paths: Iterable[Path]) -> Logs:
    records = [record for path in paths for record in Reader(path).read()]
    return Logs(
        tuple(each for each in records if isinstance(each, Call)),
        tuple(each for each in records if isinstance(each, Begun)),
        tuple(each for each in records if isinstance(each, Ended)),
    )
