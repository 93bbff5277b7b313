"""The store in RAM keeps the contracts, also as one whose scans bring everything again, in the order of positions."""

from __future__ import annotations

import pytest

from tests.property.rereading import RereadingStore
from timerd.adapters.memory import MemoryStore
from timerd.testing.contracts import (
    EntriesContract,
    LettersContract,
    RegistersContract,
    RowsContract,
    SettleContract,
    SpreadContract,
    StretchContract,
    TraitsContract,
)


class TestMemoryStore(
    RowsContract,
    StretchContract,
    SpreadContract,
    SettleContract,
    RegistersContract,
    EntriesContract,
    LettersContract,
    TraitsContract,
):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestRereadingStore(
    RowsContract,
    StretchContract,
    SpreadContract,
    SettleContract,
    RegistersContract,
    EntriesContract,
    LettersContract,
    TraitsContract,
):
    @pytest.fixture
    def store(self) -> RereadingStore:
        return RereadingStore()
