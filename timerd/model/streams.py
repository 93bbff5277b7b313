"""Where the tasks of a queue are appended to, and what comes back from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.errors import TimerdError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTarget:
    """One Redis stream for the tasks of one queue. `url`: without a password. `password_file`: empty = none is given.
    `max_length`: about so many entries are kept; 0 = all. `repeats_known_s`: for so long after an entry its repeats are
    left out; 0 = they are appended. `in_flight`: how many tasks may be in hand. `timeout_ms`: for one round of
    entries."""

    namespace: str
    queue: str
    url: str
    stream: str
    user: str = ""
    password_file: str = ""
    max_length: int = 0
    repeats_known_s: int = 3_600
    in_flight: int = 1_000
    timeout_ms: int = 5_000


class StreamEntry(NamedTuple):
    """`delivery_id` is the same over all attempts. `fields`: names and values, as they are written."""

    delivery_id: str
    fields: dict[str, str | bytes]


class StreamAway(TimerdError):
    """The server of the stream did not answer, or not in time: what it took is unknown."""
