"""Many rows in few statements.

Python gives up its lock at every step of a statement, and a busy event loop then keeps it for milliseconds: a commit
that steps for each of 256 rows waits for the loop again and again. One statement for many rows steps once.

A statement that was made is kept for the next time, and with it what it last wrote. So there are few of them: for each
number of rows that single calls bring, beyond that by powers of two, and none takes more than some bytes at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

_MOST_ROWS = 128
_MOST_BYTES = 128 << 10
_FEW_ROWS = 8
T = TypeVar("T")


def insert_rows(connection: sqlite3.Connection, head: str, rows: Iterable[Sequence[object]], tail: str = "") -> None:
    """`head`: the statement up to VALUES, `tail`: what stands behind them. What is large in a row stands last."""
    waiting: list[Sequence[object]] = []
    size_bytes = 0
    for row in rows:
        waiting.append(row)
        size_bytes += len(row[-1]) if isinstance(row[-1], bytes) else 0
        if len(waiting) == _MOST_ROWS or size_bytes > _MOST_BYTES:
            _insert(connection, head, waiting, tail)
            waiting, size_bytes = [], 0
    _insert(connection, head, waiting, tail)


def _insert(connection: sqlite3.Connection, head: str, rows: list[Sequence[object]], tail: str) -> None:
    for part in parts_of(rows):
        one = f"({','.join('?' * len(part[0]))})"
        values = list(chain.from_iterable(part))
        connection.execute(f"{head} VALUES {','.join([one] * len(part))} {tail}", values)


def delete_rows(connection: sqlite3.Connection, head: str, names: Iterable[object], *given: object) -> None:
    """`head`: the statement up to IN, whose values before it are `given`. One column only: of two SQLite reads the
    whole table."""
    for part in parts_of([*names]):
        connection.execute(f"{head} IN ({','.join('?' * len(part))})", [*given, *part])


def parts_of(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many at a time as there is a statement for."""
    at = 0
    while left := min(_MOST_ROWS, len(rows) - at):
        count = left if left <= _FEW_ROWS else 1 << (left.bit_length() - 1)
        yield rows[at : at + count]
        at += count
