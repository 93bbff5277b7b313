"""Credit in drops is gathered; whoever takes one task at a time never waits."""

from __future__ import annotations

import pytest

from timerd.core.taken import QueueKey
from timerd.services.work.gathering import WAIT_S, Gathering

MAIL = QueueKey("default", "mail")
NOW_S = 1_000.0


def of(*windows: int) -> Gathering:
    gathering = Gathering()
    for worker, tasks in enumerate(windows):
        gathering.join(worker, MAIL.namespace)
        gathering.granted(worker, MAIL.queue, tasks)
    return gathering


def test_drops_wait_until_they_are_worth_a_message_or_for_five_milliseconds() -> None:
    gathering = of(2_000, 1_200)
    assert gathering.wait_s(MAIL, 1, NOW_S) == 0, "the first ones go at once"
    gathering.sent(MAIL, NOW_S, is_dry=True)
    gathering.granted(0, MAIL.queue, 3)
    assert gathering.wait_s(MAIL, 3, NOW_S) == pytest.approx(WAIT_S)
    assert gathering.wait_s(MAIL, 100, NOW_S) == 0
    assert gathering.wait_s(MAIL, 3, NOW_S + WAIT_S) == 0


def test_who_takes_one_at_a_time_never_waits() -> None:
    gathering = of(1, 1, 1)
    gathering.sent(MAIL, NOW_S, is_dry=True)
    assert gathering.wait_s(MAIL, 1, NOW_S) == 0


def test_who_left_is_not_waited_for() -> None:
    gathering = of(10_000, 1)
    gathering.sent(MAIL, NOW_S, is_dry=True)
    assert gathering.wait_s(MAIL, 1, NOW_S) > 0
    gathering.left(0)
    assert gathering.wait_s(MAIL, 1, NOW_S) == 0
    gathering.left(1)
    assert gathering.wait_s(MAIL, 1, NOW_S) == 0


def test_credit_that_was_not_used_up_is_nobody_s_drop() -> None:
    gathering = of(2_000)
    gathering.sent(MAIL, NOW_S, is_dry=False)
    assert gathering.wait_s(MAIL, 1, NOW_S) == 0


def test_nothing_is_kept_of_queues_for_which_nobody_gave_credit() -> None:
    gathering = of(1)
    for number in range(100):
        gathering.granted(0, f"queue-{number}", 0)
    gathering.left(0)
    assert gathering._windows == {}
