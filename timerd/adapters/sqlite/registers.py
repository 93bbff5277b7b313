"""Registers: compare-and-set inside the commit; controls are remembered, because every append asks for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain, islice

from timerd.adapters.sqlite.inserts import insert_rows, parts_of
from timerd.model.identity import DIGEST_BYTES, PREFIX_BYTES
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, Table, control_key, move_key
from timerd.model.row_keys import TaskDigests
from timerd.ports import Cas, CasResult, CasStatus

_MOST_REMEMBERED = 100_000
# In a commit, whose others wait for two or three milliseconds of it.
_MOST_EXPIRED = 200
_MOST_ASKED = 256
_READ = "SELECT value FROM registers WHERE kind = ? AND name = ?"
_MOVED = f"SELECT name FROM registers WHERE kind = '{Table.MOVES.value}' AND name BETWEEN ? AND ?"
# Of the tasks of a message that are asked for; fewer are asked for one by one.
_FEW_OF_MESSAGE = 8
_LEAST, _MOST = bytes(DIGEST_BYTES - PREFIX_BYTES), b"\xff" * (DIGEST_BYTES - PREFIX_BYTES)
_WRITE = "INSERT OR REPLACE INTO registers"
# How many of these registers hold what is expected of them; nothing where none is expected.
_AS_EXPECTED = """WITH asked (kind, name, expected) AS (VALUES %s) SELECT count(*) FROM asked
LEFT JOIN registers AS r ON r.kind = asked.kind AND r.name = asked.name WHERE r.value IS asked.expected"""
_CONTROLS = "SELECT name, value FROM registers WHERE kind = ? AND name BETWEEN ? AND ?"


class RegisterTable:
    """The writer's view."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._controls: dict[bytes, bytes | None] = {}

    def control(self, name: bytes) -> bytes | None:
        """Of one partition, named as `control_key` does."""
        try:
            return self._controls[name]
        except KeyError:
            return self._remember(name, read_register(self._connection, RegisterKey(Table.CONTROL, name)))

    def controls(self, first: Partition, last: Partition) -> dict[Partition, bytes]:
        """Those that there are, of all partitions between two of one scope and shard. Their names are in the order of
        time where their numbers have as many digits; otherwise all of the scope are read."""
        low, high = control_key(first).name, control_key(last).name
        if len(low) != len(high):
            low, high = b"%d." % first.scope, b"%d/" % first.scope
        rows = self._connection.execute(_CONTROLS, (Table.CONTROL.value, low, high)).fetchall()
        named = ((Partition(*map(int, name.split(b"."))), value) for name, value in rows)
        return {p: value for p, value in named if first <= p <= last and p.shard == first.shard}

    def cas(self, changes: Sequence[Cas]) -> list[CasResult]:
        """Each on its own, in their order. Where all of some find what they expect, as mostly, they go together."""
        results: list[CasResult] = []
        for part in parts_of(changes):
            if len(part) > 1 and self._are_as_expected(part):
                self._write(part)
                results += [CasResult(CasStatus.APPLIED)] * len(part)
            else:
                results += [self._cas(change) for change in part]
        return results

    def _are_as_expected(self, changes: Sequence[Cas]) -> bool:
        """Of different registers: a second change of one is to find what the first has written."""
        if len({change.key for change in changes}) < len(changes):
            return False
        asked = chain.from_iterable((each.key.table.value, each.key.name, each.expected) for each in changes)
        query = _AS_EXPECTED % ",".join(["(?,?,?)"] * len(changes))
        [count] = self._connection.execute(query, [*asked]).fetchone()
        return bool(count == len(changes))

    def _cas(self, change: Cas) -> CasResult:
        current = read_register(self._connection, change.key)
        if current != change.expected:
            return CasResult(CasStatus.REFUSED, current)
        self._write([change])
        return CasResult(CasStatus.APPLIED)

    def _write(self, changes: Sequence[Cas]) -> None:
        rows = [(each.key.table.value, each.key.name, each.expires_at_ms, each.value) for each in changes]
        insert_rows(self._connection, _WRITE, rows)
        for each in changes:
            if each.key.table == Table.CONTROL:
                self._remember(each.key.name, each.value)

    def forget(self) -> None:
        self._controls.clear()

    def expire(self, now_ms: int) -> bool:
        """Forgets some registers whose time has passed; whether there may be more. What they speak of must have ended:
        `now_ms` is no later than the oldest bucket with open tasks, however long an outage or a queue without workers
        keeps it open."""
        forgotten = self._connection.execute(
            "DELETE FROM registers WHERE (kind, name) IN (SELECT kind, name FROM registers "
            "WHERE expires_ms > 0 AND expires_ms < ? LIMIT ?)",
            (now_ms, _MOST_EXPIRED),
        ).rowcount
        self._controls.clear()
        return forgotten == _MOST_EXPIRED

    def _remember(self, name: bytes, value: bytes | None) -> bytes | None:
        if len(self._controls) >= _MOST_REMEMBERED:
            self._controls.clear()
        self._controls[name] = value
        return value


def read_register(connection: sqlite3.Connection, key: RegisterKey) -> bytes | None:
    row = connection.execute(_READ, (key.table.value, key.name)).fetchone()
    return row[0] if row else None


def read_moved(connection: sqlite3.Connection, digests: Sequence[bytes]) -> set[bytes]:
    """The tasks of one message lie side by side, and few of them are moved."""
    prefixes = _prefixes(digests)
    if len(prefixes) * _FEW_OF_MESSAGE > len(digests):
        stored = read_registers(connection, [move_key(digest) for digest in digests])
        return {digest for digest, move in zip(digests, stored, strict=True) if move is not None}
    moved: set[bytes] = set()
    for prefix in prefixes:
        moved.update(name for (name,) in connection.execute(_MOVED, (prefix + _LEAST, prefix + _MOST)))
    return moved.intersection(digests) if moved else moved


def read_registers(connection: sqlite3.Connection, keys: Sequence[RegisterKey]) -> list[bytes | None]:
    """Those of a table in few statements: between two of them the thread gives up the interpreter and waits for it."""
    found: dict[RegisterKey, bytes] = {}
    for table in {key.table for key in keys}:
        waiting = iter({key.name for key in keys if key.table is table})
        while names := list(islice(waiting, _MOST_ASKED)):
            query = f"SELECT name, value FROM registers WHERE kind = ? AND name IN ({','.join('?' * len(names))})"
            rows = connection.execute(query, (table.value, *names))
            found.update((RegisterKey(table, name), value) for name, value in rows)
    return [found.get(key) for key in keys]


def _prefixes(digests: Sequence[bytes]) -> set[bytes]:
    if isinstance(digests, TaskDigests):
        return digests.prefixes()
    return {digest[:PREFIX_BYTES] for digest in digests}
