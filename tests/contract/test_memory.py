"""The store in RAM keeps the contracts, also as one whose scans bring everything again, in the order of positions."""

from __future__ import annotations

import pytest

from tests.property.rereading import RereadingStore
from timerd.adapters.memory import MemoryStore
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


class TestMemoryStore(
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
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestRereadingStore(
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
    def store(self) -> RereadingStore:
        return RereadingStore()
