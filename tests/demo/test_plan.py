"""The plan asks what the demo promises to ask, within its time, and the same for the same seed."""

from __future__ import annotations

import pytest

from timerd.demo.plan import make_plan


@pytest.mark.parametrize(("tasks", "seconds", "seed"), [(10_000, 10, 1), (10_000, 4, 2), (100, 4, 3), (1001, 60, 4)])
def test_the_plan_keeps_to_its_time(tasks: int, seconds: int, seed: int) -> None:
    plan = make_plan(tasks, seconds, seed)
    wanted = {each.number: each for each in (*plan.bulk, *plan.singles)}
    assert sorted(wanted) == list(range(tasks))
    assert all(0 <= each.ask_ms < each.fire_ms <= seconds * 1000 for each in wanted.values())
    assert 0 < plan.kill_ms < plan.end_ms
    for change in plan.changes:
        assert 0 < change.ask_ms < wanted[change.number].fire_ms
        assert change.verb == "cancel" or change.ask_ms < change.fire_ms <= seconds * 1000


def test_ten_thousand_tasks_have_500_cancels_and_500_moves_both_ways() -> None:
    plan = make_plan(10_000, 10, 1)
    fire_ms = {each.number: each.fire_ms for each in plan.bulk}
    moves = [change for change in plan.changes if change.verb == "move"]
    assert len(moves) == 500
    assert sum(change.verb == "cancel" for change in plan.changes) == 500
    assert len({change.number for change in plan.changes}) == 1000
    later = sum(change.fire_ms > fire_ms[change.number] for change in moves)
    assert 200 < later < 300
    assert any(change.ask_ms < plan.kill_ms for change in plan.changes)
    assert any(change.ask_ms > plan.kill_ms for change in plan.changes)


def test_the_same_seed_asks_the_same() -> None:
    assert make_plan(500, 5, 7) == make_plan(500, 5, 7)
    assert make_plan(500, 5, 7) != make_plan(500, 5, 8)
