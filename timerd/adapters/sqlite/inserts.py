"""Many rows in few statements.

Python gives up its lock at every step of a statement, and a busy event loop then keeps it for milliseconds: a commit
that steps for each of 256 rows waits for the loop again and again. One statement for many rows steps once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain, islice

_MOST_ROWS = 128


def insert_rows(
    connection: sqlite3.Connection, head: str, rows: Iterable[Sequence[object]], most: int = _MOST_ROWS
) -> None:
    """`head`: the statement up to VALUES."""
    waiting = iter(rows)
    while part := list(islice(waiting, most)):
        one = f"({','.join('?' * len(part[0]))})"
        connection.execute(f"{head} VALUES {','.join([one] * len(part))}", list(chain.from_iterable(part)))
