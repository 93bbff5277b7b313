"""The logs that the verdict is drawn from: JSON lines, each written when it happens.

A line is flushed before the process goes on, so a log is true up to the instant its writer dies.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

CallVerb = Literal["schedule", "cancel", "move"]


def now_ms() -> float:
    """This process's own clock, with the fraction."""
    return time.time_ns() / 1e6


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What a caller asked about task `number`, and what it was answered. `outcome`: OK, a CancelOutcome, the reason of
    a refusal, or UNKNOWN where no answer came. `fire_at_ms`: as answered, else as asked."""

    verb: CallVerb
    number: int
    asked_ms: float
    answered_ms: float
    outcome: str
    task_id: str = ""
    fire_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """What the worker received. `number` is the payload: it tells the task also where its id was never answered."""

    number: int
    task_id: str
    delivery_id: str
    attempt: int
    fire_at_ms: int
    received_ms: float
    # Of several instances, whose it was: a higher token for one scope is a later holder.
    fencing_scope: str = ""
    fencing_token: int = 0
    # For certain it was sent after this instant; 0 where the worker cannot tell.
    sent_after_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The server confirmed the ack of this delivery."""

    delivery_id: str
    attempt: int
    confirmed_ms: float


@dataclass(frozen=True, slots=True)
class Away:
    """A worker's stream broke: when it last knew for certain that the server had it, and when the next one was open."""

    heard_ms: float
    opened_ms: float


@dataclass(frozen=True, slots=True)
class Kill:
    """When the server was killed, and when the next one was ready."""

    killed_ms: float
    ready_ms: float


@dataclass(frozen=True, slots=True)
class Logs:
    calls: tuple[CallRecord, ...] = ()
    deliveries: tuple[DeliveryRecord, ...] = ()
    confirmed: tuple[Confirmed, ...] = ()
    kills: tuple[Kill, ...] = ()
    away: tuple[Away, ...] = ()


Record = CallRecord | DeliveryRecord | Confirmed | Kill | Away
_KINDS: dict[str, type[Record]] = {
    "Call": CallRecord,
    "Delivery": DeliveryRecord,
    "Confirmed": Confirmed,
    "Kill": Kill,
    "Away": Away,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class LogWriter:
    """Appends records to a file of its own."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, records: Iterable[Record]) -> None:
        lines = (json.dumps({"kind": _NAMES[type(record)], **asdict(record)}) + "\n" for record in records)
        self._file.write("".join(lines))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def parse(line: str) -> Record:
    fields: dict[str, Any] = json.loads(line)
    return _KINDS[fields.pop("kind")](**fields)


class LogReader:
    """Reads what was appended since it last looked; a line that is still being written waits for the next look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[Record]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [parse(line) for line in whole.decode().splitlines()]


def read_logs(paths: Iterable[Path]) -> Logs:
    records = [record for path in paths for record in LogReader(path).read()]
    return Logs(
        calls=tuple(record for record in records if isinstance(record, CallRecord)),
        deliveries=tuple(record for record in records if isinstance(record, DeliveryRecord)),
        confirmed=tuple(record for record in records if isinstance(record, Confirmed)),
        kills=tuple(record for record in records if isinstance(record, Kill)),
        away=tuple(record for record in records if isinstance(record, Away)),
    )
