"""Open rows whose deliveries are over, many in one go: every ack passes here."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.rows_in_hand import Ending, RowsInHand
from timerd.core.settle_log import SettleLog
from timerd.core.settled_index import entries_of
from timerd.core.taken import AckedRows, Ended
from timerd.model.settle import Outcome


def end_open(rows: RowsInHand, ended: Iterable[Ended]) -> tuple[list[Ending], list[Ended]]:
    """How they ended, copies included; the second list names those that are not open. Nearly all speak of the very row
    that was sent, which has no copies: these are closed here, the others by the way that is for all."""
    endings: list[Ending] = []
    missing: list[Ended] = []
    is_plain, end = not rows.copies, rows.open.end
    for item in ended:
        _, key, outcome = item
        if is_plain and end(key):
            endings.append((key, outcome))
        elif (closed := rows.close(key)) is not None:
            endings += [(each, outcome) for each in rows.all_of(closed)]
        else:
            missing.append(item)
    return endings, missing


def end_acked(rows: RowsInHand, log: SettleLog, acked: Iterable[AckedRows]) -> tuple[list[AckedRows], list[Ended]]:
    """As `end_open`, without an object for each, where all that were sent together are open still and have no copies.
    (What was closed, the others one by one: nothing was done with those.)"""
    together: list[AckedRows] = []
    others: list[Ended] = []
    for part in acked:
        closed = rows.open.take_out(part) if not rows.copies else None
        if closed is None:
            others += part.each()
        else:
            log.end_together(entries_of(closed, Outcome.ACKED))
            together.append(part)
    return together, others
