"""A driver that counts what it is asked for, by kind: requests, rows that came back, how long they took together."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

from timerd.adapters.cassandra.driver import Driver, ResultPart, ResultRow, Statement, Values, Wire

CONTROL_READS, KEY_SCANS, LWT, SERIAL_READS = "control reads", "key scans", "LWT", "serial reads"
_TABLE = re.compile(r'(?:FROM|INTO|UPDATE) (?:\w+\.)?"?(\w+)"?')


def kind_of(cql: str) -> str:
    """`control reads` follow each insert (protocol section 4), `key scans` are the sweep and the safety re-read."""
    found = _TABLE.search(cql)
    table = found.group(1) if found else ""
    if " IF " in cql:
        return f"{LWT} {table}"
    if cql.startswith("SELECT name, value"):
        return CONTROL_READS
    if cql.startswith("SELECT value FROM"):
        return f"{SERIAL_READS} {table}"
    if cql.startswith("SELECT") and table == "tasks":
        return KEY_SCANS if "body" not in cql.partition(" FROM ")[0] else "scans with bodies"
    return f"{cql.split(' ', 1)[0].lower()} {table}"


class CountingDriver(Driver):
    """`connect` gives one."""

    requests: Counter[str]
    rows_read: Counter[str]
    microseconds: Counter[str]

    def count_anew(self) -> None:
        self.requests, self.rows_read, self.microseconds = Counter(), Counter(), Counter()

    async def part(self, statement: Statement, values: Values, state: bytes | None = None) -> ResultPart:
        begun_s = time.perf_counter()
        part = await super().part(statement, values, state)
        self._note(statement, begun_s, len(part.rows))
        return part

    async def write(self, statement: Statement, values: Values) -> Sequence[ResultRow]:
        begun_s = time.perf_counter()
        rows = await super().write(statement, values)
        self._note(statement, begun_s, 0)
        return rows

    async def write_all(self, statements: Sequence[tuple[Statement, Values]]) -> None:
        begun_s = time.perf_counter()
        await super().write_all(statements)
        self._note(statements[0][0], begun_s, 0)

    async def write_wire(self, rows: Sequence[tuple[Statement, Wire]]) -> None:
        begun_s = time.perf_counter()
        await super().write_wire(rows)
        self._note(rows[0][0], begun_s, 0)

    def _note(self, statement: Statement, begun_s: float, rows: int) -> None:
        kind = kind_of(statement.prepared.query_string)
        self.requests[kind] += 1
        self.microseconds[kind] += round((time.perf_counter() - begun_s) * 1e6)
        self.rows_read[kind] += rows
