"""The SQLite store keeps the contracts: for rows of today, and for rows that lie in day-wide groups first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from timerd.adapters.sqlite.store import SqliteStore
from timerd.testing.contracts import (
    DeadLettersContract,
    EntriesContract,
    RegistersContract,
    RowsContract,
    SettleContract,
    SpreadContract,
    StretchContract,
    TraitsContract,
)
from timerd.testing.contracts.build import START_MS


class TestSqliteStore(
    RowsContract,
    StretchContract,
    SpreadContract,
    SettleContract,
    RegistersContract,
    EntriesContract,
    DeadLettersContract,
    TraitsContract,
):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(tmp_path / "data", lambda: START_MS, "normal")
        yield store
        await store.close()


class TestSqliteStoreFarAhead(RowsContract, SpreadContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(tmp_path / "data", lambda: START_MS - 10 * 86_400_000, "normal")
        yield store
        await store.close()
