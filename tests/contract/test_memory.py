"""The store in RAM keeps the contracts."""

from __future__ import annotations

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.testing.contracts import (
    LettersContract,
    RegistersContract,
    RowsContract,
    SettleContract,
    SpreadContract,
)


class TestMemoryStore(RowsContract, SpreadContract, SettleContract, RegistersContract, LettersContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
