"""Who is wrong by the clocks of the others: never one of an agreeing majority."""

from __future__ import annotations

from itertools import product

import pytest

from timerd.core.cluster.clock_comparison import MARGIN_MS, MOST_UNCERTAIN_MS, Comparison, Reading, Standing, compare

RIGHT, UNKNOWN = Comparison(Standing.RIGHT), Comparison(Standing.UNKNOWN)
HOUR = 3_600_000.0


def shown(*differences_ms: float, instances: int | None = None, uncertainty_ms: float = 1.0) -> Comparison:
    readings = [Reading(each, uncertainty_ms) for each in differences_ms]
    return compare(readings, len(readings) + 1 if instances is None else instances)


def test_who_agrees_with_most_is_right() -> None:
    assert shown() == RIGHT
    assert shown(3.0) == RIGHT
    assert shown(-200.0, HOUR) == RIGHT
    assert shown(MARGIN_MS, -MARGIN_MS) == RIGHT


@pytest.mark.parametrize("offset_ms", [HOUR, -HOUR, 300.0, -300.0])
def test_who_differs_from_two_that_agree_is_wrong(offset_ms: float) -> None:
    assert shown(-offset_ms, -offset_ms) == Comparison(Standing.WRONG, offset_ms)
    assert shown(-offset_ms, -offset_ms, -offset_ms, 0.0) == Comparison(Standing.WRONG, offset_ms)


def test_of_two_neither_knows_nor_of_three_that_all_differ() -> None:
    assert shown(HOUR) == UNKNOWN
    assert shown(HOUR, -HOUR) == UNKNOWN
    assert shown(HOUR, HOUR, 0.0) == UNKNOWN


def test_who_is_not_heard_counts_for_the_majority() -> None:
    assert shown(HOUR, HOUR, instances=4) == UNKNOWN
    assert shown(HOUR, HOUR, HOUR, instances=5).standing is Standing.WRONG
    assert shown(instances=3) == UNKNOWN
    assert shown(0.0, instances=4) == UNKNOWN


def test_an_answer_that_was_long_on_its_way_says_nothing() -> None:
    slow = MOST_UNCERTAIN_MS + 1
    assert shown(HOUR, HOUR, uncertainty_ms=slow) == UNKNOWN
    assert shown(0.0, 0.0, uncertainty_ms=slow) == UNKNOWN
    # Between the margin and what is sure.
    assert shown(MARGIN_MS + 50, MARGIN_MS + 50, uncertainty_ms=60.0) == RIGHT
    assert Reading.between(1_000.0, 5_040.0, 1_080.0) == Reading(4_000.0, 40.0)


def test_no_member_of_an_agreeing_majority_is_ever_found_wrong() -> None:
    """Clocks on a grid, every choice of them for three to five instances."""
    grid = (0.0, 200.0, 400.0, HOUR)
    checked = 0
    for count in (3, 4, 5):
        for clocks in product(grid, repeat=count):
            for me in range(count):
                near = [other for other in clocks if abs(other - clocks[me]) <= MARGIN_MS]
                others = [other - clocks[me] for at, other in enumerate(clocks) if at != me]
                if 2 * len(near) > count:
                    assert shown(*others) == RIGHT
                    checked += 1
    assert checked > 1_000
