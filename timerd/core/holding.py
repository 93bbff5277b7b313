"""The words of holding a partition: where its machine stands, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    ACQUIRE = "acquire"
    RECOVER = "recover"
    LOAD = "load"
    HOT = "hot"
    COUNT = "count"
    DONE = "done"
    LOST = "lost"


class Offered(Enum):
    """The holder's answer to a row whose position may be below `closing`."""

    ADOPTED = "adopted"
    ALREADY_HAVE = "already have"
    BELOW_FLOOR = "below floor"


class Asked(Enum):
    """The holder's answer to a cancel or a move. UNKNOWN: below the floor, the settle records in the store know."""

    WAITING = "waiting"
    OPEN = "open"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Settings:
    """`holder` and `address` go into the control row."""

    holder: str
    address: str = ""
    max_mark_lag_ms: int = 600_000
    # How often `closing` and `verified` may move.
    mark_every_ms: int = 1_000
    # Endings kept in memory because something older is still open; beyond it that is carried.
    max_settled: int = 200_000
    carry_batch: int = 1_000
