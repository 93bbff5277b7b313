"""What a task of a schedule says of its instant. It is a note on the row, so that it goes where the task goes."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import NamedTuple

from timerd.model.codec import dump_json


class Reason(IntEnum):
    """Why there is a task, as OccurrenceReason in the proto."""

    SCHEDULE = 1
    CATCH_UP = 2
    TRIGGER = 3
    BACKFILL = 4


class Occurrence(NamedTuple):
    """`previous_ms`: the instant of the task before it, 0 = there was none: the two bound an interval of data.
    `missed`: instants between these that have no task."""

    schedule_id: str
    # The same in every revision: what a receiver tells repeats by. Hexadecimal digits.
    id: str
    instant_ms: int
    previous_ms: int
    reason: int
    revision: int
    missed: int = 0

    def to_text(self) -> str:
        return dump_json(list(self)).decode()

    @classmethod
    def from_text(cls, text: str) -> Occurrence:
        """What a later release has appended is left out."""
        return cls(*json.loads(text)[: len(cls._fields)])
