"""What stands in the outbox table, and what becomes of it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class RowVerb(IntEnum):
    """What a row asks for. The values are stored."""

    SCHEDULE = 1
    CANCEL = 2
    RESCHEDULE = 3


# The verb of a sealed batch of several requests, of which those with a key in common go one after the other.
CHAINS = 4


class OutboxRow(NamedTuple):
    """One wish of the application. `options`: JSON of the other fields of a template; what a verb has no use for is
    empty."""

    id: int
    verb: int
    namespace: str
    queue: str
    fire_at_ms: int
    key: str
    payload: bytes
    options: str


class RefusedRow(NamedTuple):
    """A row that no repeat helps. `problem`: a sentence."""

    row: OutboxRow
    problem: str
    reason: str


class SealedBatch(NamedTuple):
    """`request`: the bytes that are sent until they are answered. `made_ms`: when they were made, by the database's
    clock. `is_ordered`: it has keys, and no row with one of them is sealed while it is there."""

    no: int
    made_ms: int
    verb: int
    tasks: int
    is_ordered: bool
    namespace: str
    request: bytes
