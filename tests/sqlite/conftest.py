"""Stores on a file that can be closed, looked into and opened again."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from timerd.adapters.sqlite.store import SqliteStore
from timerd.testing.contracts.build import START_MS

DAY_MS = 86_400_000


class Bench:
    """One data directory; its clock is turned by the test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_ms = START_MS
        self._open: list[SqliteStore] = []

    def open(self, synchronous: str = "normal") -> SqliteStore:
        store = SqliteStore(self.path, lambda: self.now_ms, synchronous)
        self._open.append(store)
        return store

    async def close(self) -> None:
        while self._open:
            await self._open.pop().close()

    async def reopen(self) -> SqliteStore:
        await self.close()
        return self.open()

    def query(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(self.path / "timerd.db", isolation_level=None)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    def count(self, table: str) -> int:
        return int(str(self.query(f"SELECT count(*) FROM {table}")[0][0]))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "data")
    yield bench
    await bench.close()


@pytest.fixture
def failing_commits(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None, int], None]:
    """Call it with the start of a statement and an SQLite error code: from then on such statements fail."""
    armed: dict[str, int] = {}

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *rest: object) -> sqlite3.Cursor:
            for start, code in armed.items():
                if sql.startswith(start):
                    error = sqlite3.OperationalError("disk I/O error")
                    error.sqlite_errorcode = code
                    raise error
            return super().execute(sql, *rest)  # type: ignore[arg-type]

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **rest: connect(path, factory=Connection, **rest))

    def arm(start: str | None, code: int = 0) -> None:
        armed.clear()
        if start is not None:
            armed[start] = code

    return arm
