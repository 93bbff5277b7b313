"""Little is sent to the millisecond, much on a grid of up to three, and a burst at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from timerd.core.dispatch.limits import Slice
from timerd.core.dispatch.pacing import MOST_GRID_MS, WINDOW_MS, Pacing, grid_ms
from timerd.core.taken import QueueKey

MAIL, OTHER = QueueKey("default", "mail"), QueueKey("default", "other")
BEGIN_MS = 1_800_000_000_000 // WINDOW_MS * WINDOW_MS


def slice_of(queue: QueueKey, now_ms: int, tasks: int, *, is_all: bool) -> Slice:
    return Slice(queue, now_ms, tasks, 1, tasks, is_dry=False, is_all=is_all)


def next_ms(pace: Pacing, queue: QueueKey, now_ms: int) -> float:
    """When what is due may go."""
    allowed = pace.allow(queue, 10, now_ms)
    assert allowed.tasks in (0, 10)
    assert allowed.tasks == 10 or allowed.next_ms > now_ms
    return allowed.next_ms


def paced(per_ms: int, for_ms: int = 2 * WINDOW_MS) -> tuple[Pacing, list[tuple[int, int]]]:
    """So much is due each millisecond: (when, how many) left."""
    pace, due, left = Pacing(), 0, []
    for now_ms in range(BEGIN_MS, BEGIN_MS + for_ms):
        due += per_ms
        if next_ms(pace, MAIL, now_ms) == now_ms:
            pace.sent(slice_of(MAIL, now_ms, due, is_all=True))
            left.append((now_ms - BEGIN_MS, due))
            due = 0
    return pace, left


def steps(left: list[tuple[int, int]]) -> set[int]:
    """Of the second window: the first one shows how much it is."""
    times = [at_ms for at_ms, _ in left if at_ms >= WINDOW_MS]
    return {after - before for before, after in pairwise(times)}


@pytest.mark.parametrize(
    ("per_ms", "step_ms"), [(1, 1), (2, 1), (4, 1), (5, 2), (9, 2), (12, 3), (20, 3), (40, 2), (64, 1), (500, 1)]
)
def test_how_coarse_the_grid_is(per_ms: int, step_ms: int) -> None:
    assert grid_ms(per_ms) == step_ms
    assert steps(paced(per_ms)[1]) == {step_ms}


def test_nothing_is_left_behind_by_it() -> None:
    _, left = paced(12, 500)
    assert sum(count for _, count in left) >= 12 * (500 - MOST_GRID_MS)


def test_after_a_rest_it_is_exact_again() -> None:
    pace, left = paced(12)
    at_ms = BEGIN_MS + left[-1][0] + 2 * WINDOW_MS
    pace.sent(slice_of(MAIL, at_ms, 1, is_all=True))
    assert next_ms(pace, MAIL, at_ms) == at_ms


def test_of_little_a_second_one_leaves_in_the_same_millisecond() -> None:
    pace, left = paced(4)
    assert next_ms(pace, MAIL, BEGIN_MS + left[-1][0]) == BEGIN_MS + left[-1][0]


def test_what_does_not_leave_in_one_go_counts_and_is_not_held_back() -> None:
    pace = Pacing()
    for now_ms in range(BEGIN_MS, BEGIN_MS + 2 * WINDOW_MS):
        pace.sent(slice_of(MAIL, now_ms, 12, is_all=False))
        assert next_ms(pace, MAIL, now_ms) == now_ms
    pace.sent(slice_of(MAIL, now_ms, 1, is_all=True))
    assert next_ms(pace, MAIL, now_ms) == now_ms + MOST_GRID_MS


def test_another_queue_does_not_wait_with_it() -> None:
    pace, left = paced(12)
    now_ms = BEGIN_MS + left[-1][0] + 1
    assert next_ms(pace, MAIL, now_ms) > now_ms
    assert next_ms(pace, OTHER, now_ms) == now_ms


def test_a_clock_that_is_set_back_holds_nothing_up() -> None:
    pace, left = paced(12)
    now_ms = BEGIN_MS + left[-1][0] - 3_600_000
    assert next_ms(pace, MAIL, now_ms) == now_ms


def test_a_queue_without_workers_is_forgotten() -> None:
    pace, left = paced(12)
    pace.forget(MAIL)
    now_ms = BEGIN_MS + left[-1][0] + 1
    assert next_ms(pace, MAIL, now_ms) == now_ms


def test_who_was_sent_nothing_for_a_window_or_more_is_rested() -> None:
    pace = Pacing()
    assert pace.is_rested(MAIL, BEGIN_MS)
    pace.sent(slice_of(MAIL, BEGIN_MS, 1, is_all=True))
    assert not pace.is_rested(MAIL, BEGIN_MS + 2 * WINDOW_MS - 1)
    assert pace.is_rested(MAIL, BEGIN_MS + 2 * WINDOW_MS)
    assert pace.is_rested(OTHER, BEGIN_MS)


def test_a_clock_that_was_set_back_counts_as_a_rest() -> None:
    pace = Pacing()
    pace.sent(slice_of(MAIL, BEGIN_MS, 1, is_all=True))
    assert pace.is_rested(MAIL, BEGIN_MS - 1)
