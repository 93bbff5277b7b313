"""Dead letters and the estimates of how many tasks are due in a minute."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from timerd.adapters.sqlite.inserts import delete_rows, insert_rows
from timerd.ports import DeadLetter, EstimatedTotal

_KEEP_ESTIMATES_MS = 86_400_000
_FIELDS = "SELECT task_id, died_at_ms, facts, payload FROM dead_letters"
_ADD = "ON CONFLICT DO UPDATE SET count = count + excluded.count"

_ONE = "SELECT minute_ms, count FROM estimates WHERE namespace = ? AND queue = ? AND minute_ms >= ? AND minute_ms < ?"
# From queue to queue by the key of the table: the minutes of others than are asked for are not looked at.
_ALL = """WITH RECURSIVE queues(name) AS (
        SELECT min(queue) FROM estimates WHERE namespace = ?
        UNION ALL
        SELECT (SELECT min(queue) FROM estimates WHERE namespace = ? AND queue > name) FROM queues
        WHERE name IS NOT NULL)
    SELECT minute_ms, sum(count) AS count FROM queues CROSS JOIN estimates
    WHERE namespace = ? AND queue = name AND minute_ms >= ? AND minute_ms < ? GROUP BY minute_ms"""


def write_dead_letters(connection: sqlite3.Connection, dead_letters: Iterable[DeadLetter]) -> None:
    rows = [
        (x.task_id, x.template.namespace, x.template.queue, x.died_at_ms, x.facts(), x.payload) for x in dead_letters
    ]
    insert_rows(connection, "INSERT OR REPLACE INTO dead_letters", rows)


def read_dead_letters(
    connection: sqlite3.Connection, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
) -> list[DeadLetter]:
    """By (died_at_ms, task_id), those behind `after`."""
    last = (int.from_bytes(after[:8], "big"), after[8:]) if after else (-1, b"")
    where = "namespace = ? AND died_at_ms >= ? AND died_at_ms < ? AND (died_at_ms, task_id) > (?, ?)"
    values: list[object] = [namespace, max(lo_ms, last[0]), hi_ms, *last]
    if queue:
        where += " AND queue = ?"
        values.append(queue)
    query = f"{_FIELDS} WHERE {where} ORDER BY died_at_ms, task_id LIMIT ?"
    return [DeadLetter.from_facts(*row) for row in connection.execute(query, (*values, limit))]


def find_dead_letters(connection: sqlite3.Connection, task_ids: Sequence[bytes]) -> list[DeadLetter]:
    rows = [connection.execute(f"{_FIELDS} WHERE task_id = ?", (each,)).fetchone() for each in task_ids]
    return [DeadLetter.from_facts(*row) for row in rows if row is not None]


def take_dead_letters(connection: sqlite3.Connection, task_ids: Sequence[bytes]) -> list[DeadLetter]:
    found = find_dead_letters(connection, task_ids)
    delete_rows(connection, "DELETE FROM dead_letters WHERE task_id", [each.task_id for each in found])
    return found


def add_estimates(connection: sqlite3.Connection, counts: Mapping[tuple[str, str, int], int]) -> None:
    insert_rows(connection, "INSERT INTO estimates", [(*key, count) for key, count in counts.items()], _ADD)


def read_estimates(
    connection: sqlite3.Connection, namespace: str, queue: str, lo_ms: int, hi_ms: int
) -> dict[int, int]:
    return dict(connection.execute(*_asked(namespace, queue, lo_ms, hi_ms)))


def add_up_estimates(
    connection: sqlite3.Connection, namespace: str, queue: str, lo_ms: int, hi_ms: int
) -> EstimatedTotal:
    """In one step: those of a month would hold up the event loop for as long as they are rows of Python."""
    query, values = _asked(namespace, queue, lo_ms, hi_ms)
    found = connection.execute(f"SELECT ifnull(sum(count), 0), count(*) FROM ({query})", values).fetchone()
    return EstimatedTotal(*found)


def _asked(namespace: str, queue: str, lo_ms: int, hi_ms: int) -> tuple[str, tuple[object, ...]]:
    if queue:
        return _ONE, (namespace, queue, lo_ms, hi_ms)
    return _ALL, (namespace, namespace, namespace, lo_ms, hi_ms)


def expire_estimates(connection: sqlite3.Connection, now_ms: int) -> None:
    connection.execute("DELETE FROM estimates WHERE minute_ms < ?", (now_ms - _KEEP_ESTIMATES_MS,))
