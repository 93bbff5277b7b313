"""The judge, on logs that were made up: what several instances explain, and what nothing does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.chaos.faults import Hit
from tests.chaos.judging import CROSSING_MS, HandedOver, Judgement, judged
from tests.chaos.run import OVERRUN_MS, Round
from tests.chaos.stage import handed_over_of
from timerd.demo.records import Away, CallRecord, Confirmed, DeliveryRecord, Kill, Logs

FAULT = Kill(2_000, 9_000)
SCHEDULED = CallRecord("schedule", 7, 0, 1, "OK", "t", 1_000)
LATE = CallRecord("schedule", 7, 0, 6_000, "OK", "second row", 1_000)
SCOPE = "0.0.1"


def delivery(received_ms: float, token: int, task_id: str = "t", fire_at_ms: int = 1_000) -> DeliveryRecord:
    return DeliveryRecord(7, task_id, f"d{fire_at_ms}", 1, fire_at_ms, received_ms, SCOPE, token)


def judge(
    calls: Sequence[CallRecord],
    deliveries: Sequence[DeliveryRecord],
    *confirmed: Confirmed,
    stops: Sequence[Kill] = (FAULT,),
) -> Judgement:
    return judged(Logs(tuple(calls), tuple(deliveries), confirmed), (FAULT,), stops)


def test_what_a_stale_holder_sends_after_the_ack_is_known_by_its_lower_token() -> None:
    acked = Confirmed("d1000", 1, 3_500)
    judgement = judge([SCHEDULED], [delivery(3_000, 5), delivery(5_000, 4)], acked)
    assert judgement.verdict.holds
    assert len(judgement.stale) == 1


def test_the_same_without_a_lower_token_or_without_a_fault_is_a_violation() -> None:
    acked = Confirmed("d1000", 1, 3_500)
    assert not judge([SCHEDULED], [delivery(3_000, 5), delivery(5_000, 5)], acked).verdict.holds
    assert not judge([SCHEDULED], [delivery(3_000, 5), delivery(5_000, 4)], acked, stops=()).verdict.holds


def test_a_later_attempt_may_cross_the_late_ack_of_an_earlier_one() -> None:
    acked = Confirmed("d1000", 1, 5_000)
    second = replace(delivery(5_500, 5), attempt=2)
    judgement = judge([SCHEDULED], [delivery(3_000, 5), second], acked)
    assert judgement.verdict.holds
    assert judgement.crossed == 1


def test_no_attempt_crosses_its_own_ack_or_long_after_or_without_a_fault() -> None:
    acked = Confirmed("d1000", 1, 5_000)
    for again in (
        delivery(5_500, 5),
        replace(delivery(5_000 + CROSSING_MS + 1, 5), attempt=2),
    ):
        assert not judge([SCHEDULED], [delivery(3_000, 5), again], acked).verdict.holds
    quiet = Confirmed("d1000", 1, 9_500)
    second = replace(delivery(9_700, 5), attempt=2)
    assert not judge([SCHEDULED], [delivery(3_000, 5), second], quiet).verdict.holds


def test_a_stale_delivery_is_no_excuse_for_being_early() -> None:
    assert not judge([SCHEDULED], [delivery(900, 5)]).verdict.holds


def test_the_only_delivery_after_a_move_counts_whoever_made_it() -> None:
    """By its ack, which was confirmed; without it the task may be lost."""
    moved = CallRecord("move", 7, 3_100, 3_200, "OK", SCHEDULED.task_id, 4_000)
    after = replace(delivery(5_000, 4), delivery_id="moved", fire_at_ms=4_000)
    calls, deliveries = [SCHEDULED, moved], [delivery(3_000, 5), after]
    judgement = judge(calls, deliveries, Confirmed("moved", 1, 5_500))
    assert judgement.verdict.holds
    assert len(judgement.stale) == 1
    assert not judge(calls, deliveries).verdict.holds


def test_the_only_delivery_of_a_task_counts_whoever_made_it() -> None:
    other = CallRecord("schedule", 8, 0, 1, "OK", "o", 1_000)
    new = DeliveryRecord(8, "o", "e", 1, 1_000, 3_000, SCOPE, 5)
    judgement = judge([SCHEDULED, other], [new, delivery(5_000, 4)])
    assert judgement.verdict.holds
    assert judgement.verdict.fired == 2


def test_a_row_that_came_too_late_may_arrive_from_two_places() -> None:
    judgement = judge([LATE], [delivery(3_000, 5, "first row"), delivery(6_000, 5, "second row")])
    assert judgement.verdict.holds
    assert judgement.written_again == 1


def test_a_row_that_came_in_time_may_not() -> None:
    assert not judge([SCHEDULED], [delivery(3_000, 5, "another row")]).verdict.holds


def test_a_task_that_was_moved_over_a_fault_and_never_fired_is_lost_whoever_acknowledged_it_before() -> None:
    moved = CallRecord("move", 7, 2_500, 4_000, "OK", "t", 3_900)
    for confirmed in ((), (Confirmed("d1000", 1, 4_500),)):
        judgement = judge([SCHEDULED, moved], [delivery(2_600, 5)], *confirmed)
        assert len(judgement.verdict.violations["lost"]) == 1


def test_a_cancel_is_right_of_what_was_given_up_in_a_break_and_nothing_is_sent_after_it() -> None:
    cancelled = CallRecord("cancel", 7, 4_000, 5_000, "CANCELLED", "t", 0)
    logs = Logs((SCHEDULED, cancelled), (delivery(3_000, 5),), ())
    broken = replace(logs, away=(Away(3_100, 4_500),))
    after = replace(broken, deliveries=(delivery(3_000, 5), delivery(6_000, 5)))
    assert [judged(each, (), ()).verdict.holds for each in (logs, broken, after)] == [False, True, False]
    assert judged(broken, (), ()).given_up == 1


def test_a_break_within_the_grace_or_one_that_came_later_explains_no_cancel() -> None:
    cancelled = CallRecord("cancel", 7, 4_000, 5_000, "CANCELLED", "t", 0)
    for away in (Away(3_100, 3_900), Away(4_500, 9_000)):
        assert not judged(Logs((SCHEDULED, cancelled), (delivery(3_000, 5),), (), (), (away,)), (), ()).verdict.holds


CANCELLED = CallRecord("cancel", 7, 4_000, 5_000, "CANCELLED", "t", 0)
IN_HAND = Logs((SCHEDULED, CANCELLED), (delivery(3_000, 5),))


def test_a_cancel_is_right_of_what_was_given_away_in_hand_and_never_acknowledged() -> None:
    given_away = [HandedOver(SCOPE, 4_500)]
    assert judged(IN_HAND, (), (), given_away).given_away == 1
    assert judged(IN_HAND, (), (), given_away).verdict.holds
    acked = replace(IN_HAND, confirmed=(Confirmed("d1000", 1, 4_900),))
    after = replace(IN_HAND, deliveries=(delivery(3_000, 5), delivery(6_000, 5)))
    assert [judged(each, (), (), given_away).verdict.holds for each in (acked, after)] == [False, False]


def test_a_hand_over_of_another_partition_or_at_another_time_explains_no_cancel() -> None:
    for handed_over in (HandedOver("0.0.2", 4_500), HandedOver(SCOPE, 2_900), HandedOver(SCOPE, 9_000)):
        assert not judged(IN_HAND, (), (), [handed_over]).verdict.holds


def test_what_a_confirmed_ack_has_ended_was_never_cancelled_whatever_fault_came_between() -> None:
    logs = replace(IN_HAND, confirmed=(Confirmed("d1000", 1, 4_900),))
    assert judged(logs, (FAULT,), (FAULT,)).verdict.violations["acked and CANCELLED"]


def test_the_log_of_an_instance_says_which_partitions_it_gave_away() -> None:
    event = "Partition(scope=0, bucket_ms=300000, shard=4) is handed over to two after 9 ms"
    line = f'{{"time": "1970-01-01T00:00:01.500000Z", "event": "{event}"}}'
    assert list(handed_over_of(f"no JSON\n{line}\n")) == [HandedOver("0.300000.4", 1_500.0)]


def a_roll(duplicates: int, most_late_ms: float) -> Round:
    return Round("roll", Hit(0, 9_000, ("one",)), 12_000, 150, 40, {}, 8_000, most_late_ms, duplicates, 200)


def test_restarts_in_order_double_nothing_unless_the_machine_is_overrun() -> None:
    assert not a_roll(1, OVERRUN_MS - 1).is_within
    assert a_roll(1, OVERRUN_MS).is_within
    assert not a_roll(201, OVERRUN_MS).is_within
