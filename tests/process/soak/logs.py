"""The logs of a soak: millions of lines, so each is a record of 40 bytes instead of JSON.

Every process, also one that is started again after a kill, has a file of its own: what it had written when it died is
whole records and perhaps a piece, which nobody reads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from timerd.demo.records import Away, CallRecord, CallVerb, Confirmed, DeliveryRecord, LogWriter, Record

# A process that cannot name its outcome says OTHER, which the verdict takes for a wrong answer.
OUTCOMES = (
    "OTHER", "OK", "UNKNOWN", "NOT_STORED", "CANCELLED", "ALREADY_FIRED", "IN_FLIGHT", "ALREADY_CANCELLED", "FINISHED",
    "NOT_FOUND", "PENDING", "UNSPECIFIED", "FAILED_PRECONDITION", "ABORTED", "RESOURCE_EXHAUSTED", "UNAVAILABLE",
)  # fmt: skip
_CODES = {name: code for code, name in enumerate(OUTCOMES)}
_LAYOUT = struct.Struct("<BBxxIqddQ")


class Kind(IntEnum):
    SCHEDULE = 1
    CANCEL = 2
    MOVE = 3
    DELIVERY = 4
    CONFIRMED = 5


_OF_VERB: dict[CallVerb, Kind] = {"schedule": Kind.SCHEDULE, "cancel": Kind.CANCEL, "move": Kind.MOVE}


class Line(NamedTuple):
    """`detail`: the outcome of a call, the attempt of a delivery. `at_ms`: answered, received or confirmed. `delivery`:
    eight bytes that stand for the delivery_id."""

    kind: int
    detail: int
    number: int
    fire_at_ms: int
    asked_ms: float
    at_ms: float
    delivery: int


class CompactLog(LogWriter):
    """Takes the records of the demo. One write for all records of a call, without a buffer that a kill could take."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("ab", buffering=0)

    def write(self, records: Iterable[Record]) -> None:
        """What a break of the worker's stream explains is not judged here."""
        self._raw.write(b"".join(packed(each) for each in records if not isinstance(each, Away)))

    def close(self) -> None:
        self._raw.close()


def packed(record: Record) -> bytes:
    match record:
        case CallRecord():
            code = _CODES.get(record.outcome, 0)
            return _LAYOUT.pack(
                _OF_VERB[record.verb], code, record.number, record.fire_at_ms, record.asked_ms, record.answered_ms, 0
            )
        case DeliveryRecord():
            name = _short(record.delivery_id)
            attempt = min(record.attempt, 255)
            return _LAYOUT.pack(Kind.DELIVERY, attempt, record.number, record.fire_at_ms, 0, record.received_ms, name)
        case Confirmed():
            name = _short(record.delivery_id)
            return _LAYOUT.pack(Kind.CONFIRMED, min(record.attempt, 255), 0, 0, 0, record.confirmed_ms, name)
    raise TypeError(f"{record!r} has no place in this log")


def _short(delivery_id: str) -> int:
    return int.from_bytes(blake2b(delivery_id.encode(), digest_size=8).digest())


class CompactReader:
    """What was appended since it last looked; a record that is still being written waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[Line]:
        if not self._path.exists():
            return iter(())
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = len(data) - len(data) % _LAYOUT.size
        self._offset += whole
        return map(Line._make, _LAYOUT.iter_unpack(data[:whole]))
