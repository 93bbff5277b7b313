"""Dead letters and the estimates of how many tasks are due in a minute."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.task import Template, dump_json
from timerd.ports import DeadLetter

_KEEP_ESTIMATES_MS = 86_400_000
_FIELDS = "SELECT task_id, died_at_ms, facts, payload FROM dead_letters"
_ADD = """INSERT INTO estimates VALUES (?,?,?,?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count"""


def write_letters(connection: sqlite3.Connection, letters: Iterable[DeadLetter]) -> None:
    rows = [(x.task_id, x.template.namespace, x.template.queue, x.died_at_ms, _facts(x), x.payload) for x in letters]
    connection.executemany("INSERT OR REPLACE INTO dead_letters VALUES (?,?,?,?,?,?)", rows)


def read_letters(
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
    return [_letter(row) for row in connection.execute(query, (*values, limit))]


def find_letters(connection: sqlite3.Connection, task_ids: Sequence[bytes]) -> list[DeadLetter]:
    rows = [connection.execute(f"{_FIELDS} WHERE task_id = ?", (each,)).fetchone() for each in task_ids]
    return [_letter(row) for row in rows if row is not None]


def take_letters(connection: sqlite3.Connection, task_ids: Sequence[bytes]) -> list[DeadLetter]:
    found = find_letters(connection, task_ids)
    connection.executemany("DELETE FROM dead_letters WHERE task_id = ?", [(each.task_id,) for each in found])
    return found


def _facts(letter: DeadLetter) -> bytes:
    key = letter.key
    return dump_json(
        {
            "key": [key.position_ms, key.digest.hex(), key.version],
            "partition": letter.partition,
            "template": letter.template.to_json(),
            "fire_at_ms": letter.fire_at_ms,
            "attempts": letter.attempts,
            "last_error": letter.last_error,
            "row_key": letter.row_key,
        }
    )


def _letter(row: tuple[bytes, int, bytes, bytes]) -> DeadLetter:
    task_id, died_at_ms, stored, payload = row
    facts = json.loads(stored)
    position_ms, digest, version = facts["key"]
    return DeadLetter(
        task_id,
        RowKey(position_ms, bytes.fromhex(digest), version),
        Partition(*facts["partition"]),
        Template.from_json(facts["template"]),
        facts["fire_at_ms"],
        died_at_ms,
        facts["attempts"],
        facts["last_error"],
        payload,
        facts["row_key"],
    )


def add_estimates(connection: sqlite3.Connection, counts: Mapping[tuple[str, str, int], int]) -> None:
    connection.executemany(_ADD, [(*key, count) for key, count in counts.items()])


def read_estimates(
    connection: sqlite3.Connection, namespace: str, queue: str, lo_ms: int, hi_ms: int
) -> dict[int, int]:
    where = "namespace = ? AND minute_ms >= ? AND minute_ms < ?"
    values: list[object] = [namespace, lo_ms, hi_ms]
    if queue:
        where += " AND queue = ?"
        values.append(queue)
    query = f"SELECT minute_ms, sum(count) FROM estimates WHERE {where} GROUP BY minute_ms"
    return dict(connection.execute(query, values))


def expire_estimates(connection: sqlite3.Connection, now_ms: int) -> None:
    connection.execute("DELETE FROM estimates WHERE minute_ms < ?", (now_ms - _KEEP_ESTIMATES_MS,))
