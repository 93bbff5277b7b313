"""Many rows in few statements.

Python gives up its lock at every step of a statement, and a busy event loop then keeps it for milliseconds: a commit
that steps for each of 256 rows waits for the loop again and again. One statement for many rows steps once.

A statement that was made is kept for the next time, and with it what it last wrote. So there are few of them: for each
number of rows that single calls bring, beyond that by powers of two, and none takes more than some bytes at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

_MOST_ROWS = 128
_MOST_BYTES = 128 << 10
_FEW_ROWS = 8


def insert_rows(
    connection: sqlite3.Connection, head: str, rows: Iterable[Sequence[object]], most: int = _MOST_ROWS
) -> None:
    """`head`: the statement up to VALUES. What is large in a row stands last."""
    waiting: list[Sequence[object]] = []
    size_bytes = 0
    for row in rows:
        waiting.append(row)
        size_bytes += len(row[-1]) if isinstance(row[-1], bytes) else 0
        if len(waiting) == most or size_bytes > _MOST_BYTES:
            _insert(connection, head, waiting)
            waiting, size_bytes = [], 0
    _insert(connection, head, waiting)


def _insert(connection: sqlite3.Connection, head: str, rows: list[Sequence[object]]) -> None:
    while rows:
        count = len(rows) if len(rows) <= _FEW_ROWS else 1 << (len(rows).bit_length() - 1)
        one = f"({','.join('?' * len(rows[0]))})"
        connection.execute(f"{head} VALUES {','.join([one] * count)}", list(chain.from_iterable(rows[:count])))
        rows = rows[count:]
