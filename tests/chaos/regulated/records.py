"""What workers write down of each attempt, and what the run itself knows: which worker is gone, when a fault was, and
what the server says of tasks that end as dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.lines import Tail
from timerd.demo.records import CallRecord, DeliveryRecord, read_logs

DONE, FAILED, REJECTED, LOST = "done", "failed", "rejected", "LOST"


@dataclass(frozen=True, slots=True)
class Begun:
    """A handler was called. `offer`: which one of the plan its worker has; `serial`: of the attempt, in this worker;
    `fence`: the order fence, empty where there is none; `scope`, `token`: whose delivery it is (G6)."""

    worker: str
    offer: int
    serial: int
    queue: str
    number: int
    key: str
    task_id: str
    delivery_id: str
    attempt: int
    fire_at_ms: int
    at_ms: float
    scope: str = ""
    token: int = 0
    fence: tuple[int, ...] = ()

    @property
    def delivery(self) -> DeliveryRecord:
        """As the judge of single tasks has it."""
        where = self.number, self.task_id, self.delivery_id, self.attempt, self.fire_at_ms, self.at_ms
        return DeliveryRecord(*where, self.scope, self.token)


@dataclass(frozen=True, slots=True)
class Ended:
    """The handler has ended, and its worker says so next. `how`: done, failed, rejected, or why it was interrupted."""

    worker: str
    serial: int
    how: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Gone:
    """A worker was killed, so its handlers have ended."""

    worker: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Window:
    """From a fault until all was as before. `stops`: what was sent before may be read late. `explains`: deliveries may
    come again. A lease that was lost on a busy machine does both."""

    begun_ms: float
    over_ms: float
    stops: bool
    explains: bool = True


@dataclass(frozen=True, slots=True)
class Seen:
    """In the end the server said so of a task."""

    number: int
    state: str


@dataclass(frozen=True, slots=True)
class Given:
    """A partition went to another instance, in peace."""

    scope: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Released:
    """A key stands still by this task, and an operator is about to let it go on: without the task, or, where that is
    `redriven`, after it."""

    task_id: str
    redriven: bool
    asked_ms: float


Record = Begun | Ended | Gone | Window | Seen | Given | Released
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in (Begun, Ended, Gone, Window, Seen, Given, Released)}


class Reader:
    """Reads what was appended since it last looked."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)

    def read(self) -> list[Record]:
        return [_record_of(fields) for fields in self._tail.read()]


def _record_of(fields: dict[str, Any]) -> Record:
    kind = _KINDS[fields.pop("kind")]
    if kind is Begun:
        fields["fence"] = tuple(fields["fence"])
    return kind(**fields)


@dataclass(frozen=True, slots=True)
class Logs:
    """Of a run."""

    calls: tuple[CallRecord, ...] = ()
    begun: tuple[Begun, ...] = ()
    ended: tuple[Ended, ...] = ()
    gone: tuple[Gone, ...] = ()
    windows: tuple[Window, ...] = ()
    seen: tuple[Seen, ...] = ()
    given: tuple[Given, ...] = ()
    released: tuple[Released, ...] = ()


def logs_of(callers: Iterable[Path], others: Iterable[Path]) -> Logs:
    """`others`: of the workers and of the run."""
    records = [record for path in others for record in Reader(path).read()]
    return Logs(
        read_logs(callers).calls,
        tuple(each for each in records if isinstance(each, Begun)),
        tuple(each for each in records if isinstance(each, Ended)),
        tuple(each for each in records if isinstance(each, Gone)),
        tuple(each for each in records if isinstance(each, Window)),
        tuple(each for each in records if isinstance(each, Seen)),
        tuple(each for each in records if isinstance(each, Given)),
        tuple(each for each in records if isinstance(each, Released)),
    )
