"""Credit in drops is gathered; whoever takes one task at a time never waits."""

from __future__ import annotations

import pytest

from timerd.core.dispatch.limits import Slice
from timerd.core.dispatch.send_hold import HOLD_MS, SendHold
from timerd.core.taken import QueueKey

MAIL = QueueKey("default", "mail")
NOW_MS = 1_000_000


class Town:
    """Workers of one queue with such windows, and `wanted` as their credit."""

    def __init__(self, *windows: int) -> None:
        self.wanted = 0
        self.hold = SendHold(lambda _: self.wanted)
        for worker, tasks in enumerate(windows):
            self.hold.join(worker, MAIL.namespace)
            self.hold.granted(worker, MAIL.queue, tasks)

    def sent(self, now_ms: int = NOW_MS, *, is_dry: bool = True) -> None:
        self.hold.sent(Slice(MAIL, now_ms, 10, 1, 100, is_dry, is_all=False))

    def wait_ms(self, wanted: int, now_ms: int = NOW_MS) -> float:
        """How long what is due waits for more credit."""
        self.wanted = wanted
        allowed = self.hold.allow(MAIL, 1_000, now_ms)
        assert allowed.tasks in (0, 1_000)
        assert allowed.heeds_credit == (not allowed.tasks)
        return allowed.next_ms - now_ms


def test_drops_wait_until_they_are_worth_a_message_or_for_five_milliseconds() -> None:
    town = Town(2_000, 1_200)
    assert town.wait_ms(1) == 0, "the first ones go at once"
    town.sent()
    town.hold.granted(0, MAIL.queue, 3)
    assert town.wait_ms(3) == HOLD_MS
    assert town.wait_ms(3, NOW_MS + 2) == HOLD_MS - 2
    assert town.wait_ms(100) == 0
    assert town.wait_ms(3, NOW_MS + HOLD_MS) == 0


def test_who_takes_one_at_a_time_never_waits() -> None:
    town = Town(1, 1, 1)
    town.sent()
    assert town.wait_ms(1) == 0


def test_who_left_is_not_waited_for() -> None:
    town = Town(10_000, 1)
    town.sent()
    assert town.wait_ms(1) > 0
    town.hold.left(0)
    assert town.wait_ms(1) == 0
    town.hold.left(1)
    assert town.wait_ms(1) == 0


def test_credit_that_was_not_used_up_is_nobody_s_drop() -> None:
    town = Town(2_000)
    town.sent(is_dry=False)
    assert town.wait_ms(1) == 0


@pytest.mark.parametrize("later_ms", [-1, -3_600_000])
def test_a_clock_that_is_set_back_holds_nothing_up(later_ms: int) -> None:
    town = Town(2_000)
    town.sent()
    assert town.wait_ms(1, NOW_MS + later_ms) == 0


def test_where_the_clock_stands_still_the_time_is_over_when_it_is_said_to_be() -> None:
    town = Town(2_000)
    town.sent()
    assert town.wait_ms(1) == HOLD_MS
    town.hold.lapse(MAIL)
    assert town.wait_ms(1) == 0


def test_a_queue_without_workers_is_forgotten() -> None:
    town = Town(2_000)
    town.sent()
    town.hold.forget(MAIL)
    assert town.wait_ms(1) == 0


def test_nothing_is_kept_of_queues_for_which_nobody_gave_credit() -> None:
    town = Town(1)
    for number in range(100):
        town.hold.granted(0, f"queue-{number}", 0)
    town.hold.left(0)
    assert town.hold._windows == {}
