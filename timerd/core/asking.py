"""What the holder of a partition knows of one of its rows: the answer to whoever cancels or moves its task."""

from __future__ import annotations

from timerd.core.holding import Asked
from timerd.core.repeats import is_said_by_open
from timerd.core.rows_in_hand import RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome


def asked_about(
    rows: RowsInHand, log: SettleLog, floor_ms: int, loaded_ms: int, key: RowKey
) -> tuple[Asked, Outcome | None]:
    """Of a holder that has read what is between `floor_ms` and `loaded_ms`; the version of `key` is that of the row
    found in the store. What has not been read may have marks: of that it says what one that still loads says."""
    # First, for what is open may be a later row of the same attempt.
    if (outcome := log.settled.get(key)) is None and rows.is_open(key):
        return Asked.OPEN, None
    if outcome is None and not floor_ms <= key.position_ms < loaded_ms:
        # Over and forgotten, or to be read: a verdict that came since says nothing about how.
        return Asked.UNKNOWN, None
    if outcome is None and is_said_by_open(rows, key):
        return Asked.OPEN, None
    outcome = outcome or rows.verdict(key)
    return (Asked.WAITING, None) if outcome is None else (Asked.ENDED, outcome)
