"""Rows that are open: sent, and not over. They stay in the arrays that they came in, none is an object of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup


class Closed(NamedTuple):
    """A row that was open."""

    rows: RowGroup
    row: int
    key: RowKey


@dataclass(slots=True)
class OpenBatch:
    """Rows that were sent together; the batch holds `verified` back while one of them is open."""

    rows: RowGroup
    left: int
    oldest_ms: int
    latest_ms: int
    sent_ms: int
