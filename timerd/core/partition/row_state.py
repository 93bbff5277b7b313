"""The states of a row of a held partition (docs/understand/row-states.md)."""

from __future__ import annotations

from enum import Enum


class RowState(Enum):
    """What the holder of a partition knows of one of its rows."""

    # Not met yet, left in the store for want of memory, or over and forgotten.
    ABSENT = "absent"
    # A later release wrote it: it stays in the store, and holds the marks back.
    FOREIGN = "foreign"
    # Its instant, or a worker, has not come.
    WAITING = "waiting"
    # It fires only after `moves` has said where its task lives.
    BLOCKED = "blocked"
    # It has not ended, and will not be sent: its outcome waits until it is met.
    PENDING = "pending"
    # It was sent, and is not over.
    OPEN = "open"
    # It says what an open row of its task says, and ends as that one does.
    COPY = "copy"
    # Its task goes on at another place, and the record that says so is not durable.
    LEAVING = "leaving"
    # It is over: here for good, or because it went on at another place.
    ENDED = "ended"
