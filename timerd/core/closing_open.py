"""Open rows whose deliveries are over, many in one go: every ack passes here."""

from __future__ import annotations

from collections.abc import Iterable

from timerd.core.rows_in_hand import Ending, RowsInHand
from timerd.core.taken import Ended


def end_open(rows: RowsInHand, ended: Iterable[Ended]) -> tuple[list[Ending], list[Ended]]:
    """How they ended, copies included; the second list names those that are not open. Nearly all speak of the very row
    that was sent, which has no copies: these are closed here, the others by the way that is for all."""
    endings: list[Ending] = []
    missing: list[Ended] = []
    is_plain, get = not rows.copies, rows.open.get
    for item in ended:
        _, key, outcome = item
        position_ms, digest, version = key
        found = get(digest) if is_plain else None
        if found is not None and found[0].is_at(found[1], position_ms, version):
            del rows.open[digest]
            found[0].left -= 1
            endings.append((key, outcome))
        elif (closed := rows.close(key)) is not None:
            endings += [(each, outcome) for each in rows.all_of(closed)]
        else:
            missing.append(item)
    return endings, missing
