"""What a settle record says of rows that go on elsewhere: what an earlier version wrote is read by a later one."""

from __future__ import annotations

import json

import pytest

from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.settle import Carry, CarryReason, Outcome, SettleRecord, settle_entries

HERE = Partition(0, 1_800_000_000_000, 3)
SOURCE = RowKey(1_800_000_000_007, bytes(range(16)), 65_537)


@pytest.mark.parametrize("error", ["", 'said "no" \\ and\nwent', "schön 時 \x00"])
def test_a_carry_is_written_as_json_and_read_as_it_was(error: str) -> None:
    carry = Carry(SOURCE, CarryReason.RETRY, HERE, 1_800_000_001_000, 65_538, 0, 1_800_000_000_500, error)
    lent = Carry(SOURCE, CarryReason.GUARD, HERE, 1_800_000_002_000, 65_538, 1_800_000_002_000)
    entries = settle_entries([(SOURCE, Outcome.CARRIED)])
    packed = SettleRecord(HERE, 7, 1, entries, (carry, lent)).pack()
    size = int.from_bytes(packed[:4], "little")
    assert json.loads(packed[4 : 4 + size])[0] == {
        "source": [1_800_000_000_007, "000102030405060708090a0b0c0d0e0f", 65_537],
        "reason": 1,
        "target": [0, 1_800_000_000_000, 3],
        "position_ms": 1_800_000_001_000,
        "version": 65_538,
        "lease_until_ms": 0,
        "failed_at_ms": 1_800_000_000_500,
        "last_error": error,
    }
    assert SettleRecord.unpack(HERE, 7, 1, packed).carries == (carry, lent)
