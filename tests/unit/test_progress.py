from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.progress import MAX_CURSOR_BYTES, KeptProgress
from timerd.model.settle import Carry, CarryReason

CARRY = Carry(RowKey(5, b"d" * 16, 0), CarryReason.RETRY, Partition(0, 0, 0), 7, 1, 0, 6, "no")


@given(st.floats(0, 1), st.binary(max_size=MAX_CURSOR_BYTES))
def test_it_is_kept_as_it_was_said(fraction: float, cursor: bytes) -> None:
    said = KeptProgress(fraction, cursor)
    assert KeptProgress.from_text(said.to_text()) == said
    assert said.to_text()


def test_a_record_has_it_where_something_was_said() -> None:
    told = CARRY._replace(progress=KeptProgress(0.4, b"page 17").to_text())
    assert Carry.from_json(json.loads(told.to_json())) == told
    assert "progress" not in json.loads(CARRY.to_json())
    assert Carry.from_json(json.loads(CARRY.to_json())) == CARRY
