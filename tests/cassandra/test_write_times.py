"""When writes say that they were made."""

from __future__ import annotations

from timerd.adapters.cassandra.write_times import WriteTimes


def test_each_is_later_than_the_one_before() -> None:
    now_ms = iter((1_000, 1_000, 1_000, 999, 1_001))
    times = WriteTimes(now_ms.__next__)
    assert [times() for _ in range(5)] == [1_000_000, 1_000_001, 1_000_002, 1_000_003, 1_001_000]
