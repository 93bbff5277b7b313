"""The benchmark of slots decides as it says."""

from __future__ import annotations

from benchmarks.slots import House


def test_each_freed_slot_gets_a_task_and_none_is_free_after_it() -> None:
    house = House(types=5, workers=20, waiting=1_000)
    for at in range(200):
        house.decide(at % 20)
    assert house.pools.free_queues() == []
    house.pools.check()
