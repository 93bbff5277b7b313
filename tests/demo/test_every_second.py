"""What is said of the schedule beside the tasks: each instant once, none early, none missed."""

from __future__ import annotations

import pytest

from timerd.demo.every_second import Seconds, is_complete, judge, seconds_from
from timerd.demo.records import Confirmed, DeliveryRecord, Logs

FIRST_MS = 1_900_000_000_000
SECONDS = Seconds(FIRST_MS, 3)
CAME = tuple(DeliveryRecord(0, f"T{n}", f"D{n}", 1, FIRST_MS + 1000 * n, FIRST_MS + 1000 * n + 2.0) for n in range(3))
ACKED = tuple(Confirmed(each.delivery_id, 1, each.received_ms + 3) for each in CAME)


def test_instants_are_whole_seconds_that_lie_ahead() -> None:
    assert seconds_from(FIRST_MS - 1500, 10) == Seconds(FIRST_MS, 10)
    assert list(SECONDS.instants_ms) == [FIRST_MS, FIRST_MS + 1000, FIRST_MS + 2000]


def test_each_instant_once_is_as_promised_and_an_unconfirmed_one_may_come_again() -> None:
    again = DeliveryRecord(0, "T1", "D1", 2, FIRST_MS + 1000, FIRST_MS + 1003.0)
    logs = Logs(deliveries=(*CAME, again), confirmed=ACKED)
    assert judge(SECONDS, logs) == judge(SECONDS, Logs(deliveries=CAME, confirmed=ACKED))
    assert judge(SECONDS, logs).wrong == ()
    assert is_complete(SECONDS, logs)
    assert not is_complete(SECONDS, Logs(deliveries=CAME, confirmed=ACKED[1:]))


@pytest.mark.parametrize(
    ("deliveries", "says"),
    [
        (CAME[1:], "never came"),
        ((*CAME, DeliveryRecord(0, "T9", "D9", 1, FIRST_MS + 1, FIRST_MS + 2.0)), "which is no instant"),
        ((*CAME, DeliveryRecord(0, "T9", "D9", 1, FIRST_MS, FIRST_MS + 2.0)), "came as 2 tasks"),
        ((*CAME[1:], DeliveryRecord(0, "T0", "D0", 1, FIRST_MS, FIRST_MS - 0.1)), "which is early"),
        ((*CAME, DeliveryRecord(0, "T0", "D0", 2, FIRST_MS, FIRST_MS + 900.0)), "again after its ack was confirmed"),
    ],
)
def test_anything_else_is_wrong(deliveries: tuple[DeliveryRecord, ...], says: str) -> None:
    [sentence] = judge(SECONDS, Logs(deliveries=deliveries, confirmed=ACKED)).wrong
    assert says in sentence
