"""What the checker excuses, each with a neighbour that it does not: a checker that excuses too much proves nothing."""

from __future__ import annotations

import pytest

from tests.simulator.checker import MOST_PUT_OFF
from tests.simulator.events import Settled, Verb, Wanted
from tests.simulator.lost import GRACE_MS
from tests.simulator.tale import LEASE_MS, Tale
from timerd.model.partition import BUCKET_MS

KEYED = Wanted(9_000, "a", key="k", policy="REJECT")
REPLACING = Wanted(8_000, "a", key="k", policy="REPLACE")


@pytest.fixture
def tale() -> Tale:
    return Tale()


def test_a_plain_history_is_as_promised(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.came(5_000, "one", 5_000)
    tale.acked(5_010, "one")
    tale.over(60_000, one="ACKED")
    assert tale.wrong == []


# -- keys: a call with REPLACE cancels what has its key ---------------------------------------------------------------


def test_a_call_that_is_under_way_may_replace_what_is_scheduled_meanwhile(tale: Tale) -> None:
    replacing = tale.schedule(1_000, "new", REPLACING)
    tale.reply(1_005, tale.schedule(1_002, "old", KEYED), "stored")
    tale.reply(1_010, replacing, "stored")
    tale.came(8_000, "new", 8_000)
    tale.acked(8_001, "new")
    tale.over(60_000, new="ACKED", old="CANCELLED")
    assert tale.wrong == []


def test_a_call_that_was_answered_before_replaces_nothing_that_comes_later(tale: Tale) -> None:
    tale.reply(1_001, tale.schedule(1_000, "new", REPLACING), "stored")
    tale.came(8_000, "new", 8_000)
    tale.acked(8_001, "new")
    tale.reply(8_020, tale.schedule(8_010, "old", KEYED), "stored")
    tale.over(60_000, new="ACKED", old="CANCELLED")
    assert [sentence[:2] for sentence in tale.wrong] == ["G2", "G3"]


def test_a_call_with_another_key_or_policy_replaces_nothing(tale: Tale) -> None:
    others = Wanted(8_000, "a", key="other", policy="REPLACE"), Wanted(8_000, "a", key="k", policy="KEEP")
    calls = [tale.schedule(1_000 + n, f"new{n}", wanted) for n, wanted in enumerate(others)]
    tale.reply(1_005, tale.schedule(1_002, "old", KEYED), "stored")
    tale.reply(1_010, calls[0], "refused")
    tale.reply(1_010, calls[1], "kept old")
    tale.over(60_000, old="CANCELLED")
    assert any(sentence.startswith("G2: old counts as cancelled") for sentence in tale.wrong)


@pytest.mark.parametrize(("overlaps", "sent_first"), [(True, True), (True, False), (False, True)])
def test_what_was_sent_before_it_lost_its_key_to_a_call_beside_it_is_not_replaced(
    tale: Tale, overlaps: bool, sent_first: bool
) -> None:
    """Neither of both is excused alone."""
    due_ms = 1_000 if sent_first else 9_000
    first = tale.schedule(1_000, "old", Wanted(due_ms, "a", key="k", policy="KEEP"))
    beside = tale.schedule(1_010, "beside", KEYED) if overlaps else None
    if sent_first:
        tale.came(1_020, "old", due_ms)
    tale.reply(1_030, first, "stored")
    if beside is not None:
        tale.reply(1_040, beside, "stored")
    tale.reply(2_001, tale.schedule(2_000, "new", REPLACING), "stored")
    tale.came(9_000, "old", due_ms)
    is_over = ["G7: old was delivered after new took its key over"]
    assert [sentence for sentence in tale.wrong if "G7" in sentence] == ([] if overlaps and sent_first else is_over)


def test_a_dead_task_may_live_again_although_its_key_was_taken_over(tale: Tale) -> None:
    tale.reply(1_001, tale.schedule(1_000, "old", KEYED), "stored")
    tale.came(9_000, "old", 9_000)
    tale.said(9_010, "old", "reject")
    tale.reply(9_101, tale.schedule(9_100, "new", REPLACING), "stored")
    tale.reply(9_210, tale.call(9_200, Verb.REDRIVE, "redrive", "old"), "True")
    tale.came(9_220, "old", 9_200, delivery=b"old again")
    assert [sentence for sentence in tale.wrong if "G7" in sentence] == []


@pytest.mark.parametrize(("rejected_ms", "redriven_ms"), [(9_150, 9_200), (9_010, 9_050)], ids=["later", "before"])
def test_one_that_lived_when_its_key_was_taken_over_does_not(
    tale: Tale, rejected_ms: float, redriven_ms: float
) -> None:
    tale.reply(1_001, tale.schedule(1_000, "old", KEYED), "stored")
    tale.came(9_000, "old", 9_000)
    events = {
        rejected_ms: lambda: tale.said(rejected_ms, "old", "reject"),
        9_100: lambda: tale.reply(9_101, tale.schedule(9_100, "new", REPLACING), "stored"),
        redriven_ms: lambda: tale.reply(
            redriven_ms + 1, tale.call(redriven_ms, Verb.REDRIVE, "redrive", "old"), "True"
        ),
    }
    for at_ms in sorted(events):
        events[at_ms]()
    tale.came(9_220, "old", int(redriven_ms), delivery=b"old again")
    assert "G7: old was delivered after new took its key over" in tale.wrong


def test_who_is_told_that_it_was_cancelled_already_is_not_the_one_who_did_it(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.cancelled(2_000, "one", "CANCELLED", request="first")
    tale.cancelled(2_100, "one", "ALREADY_CANCELLED", request="second")
    tale.over(60_000, one="CANCELLED")
    assert tale.wrong == []


@pytest.mark.parametrize(("asked_ms", "wrong"), [(9_000, []), (9_301, ["G2"])])
def test_a_try_of_a_redrive_may_have_looked_before_the_other_one_did_it(
    tale: Tale, asked_ms: float, wrong: list[str]
) -> None:
    """It says then that nothing was redriven; one that is made after the answer says what that said."""
    tale.stored(1_000, "one", 2_000)
    tale.came(2_000, "one", 2_000)
    tale.said(2_100, "one", "reject")
    tale.confirmed(2_110)
    first, other = (tale.call(at_ms, Verb.REDRIVE, "redrive", "one") for at_ms in (9_000, min(asked_ms, 9_200)))
    tale.reply(9_300, first, "True")
    if asked_ms > 9_300:
        tale.reply(9_300, other, "True")
        other = tale.call(asked_ms, Verb.REDRIVE, "redrive", "one")
    tale.reply(9_400, other, "False")
    assert [sentence[:2] for sentence in tale.wrong if sentence.startswith("G2")] == wrong


def test_a_repeat_of_a_cancel_is_not_another_one(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.cancelled(2_000, "one", "CANCELLED")
    tale.cancelled(2_100, "one", "ALREADY_CANCELLED")
    tale.over(60_000, one="CANCELLED")
    assert [sentence[:2] for sentence in tale.wrong] == ["G2", "G7"]


# -- deliveries that never arrive -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("broke_ms", "asked_ms"), [(5_000, 5_001), (5_000, 5_999), (5_700, 6_000)])
def test_what_was_sent_on_a_stream_that_broke_is_in_flight(tale: Tale, broke_ms: float, asked_ms: float) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.broke(broke_ms)
    tale.cancelled(asked_ms, "one", "IN_FLIGHT")
    tale.over(60_000, one="CANCELLED")
    assert tale.wrong == []


@pytest.mark.parametrize(("broke_ms", "asked_ms"), [(4_999, 5_001), (5_000, 6_001)], ids=["not due", "given up"])
def test_what_cannot_have_been_sent_is_not_in_flight(tale: Tale, broke_ms: float, asked_ms: float) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.broke(broke_ms)
    tale.cancelled(asked_ms, "one", "IN_FLIGHT")
    tale.over(60_000, one="CANCELLED")
    assert [sentence[:2] for sentence in tale.wrong] == ["G7"]


def test_another_queue_s_worker_was_sent_nothing(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000, queue="b")
    tale.broke(5_000)
    tale.cancelled(5_001, "one", "IN_FLIGHT")
    tale.over(60_000, one="CANCELLED")
    assert [sentence[:2] for sentence in tale.wrong] == ["G7"]


def test_over_a_stop_what_was_sent_keeps_its_lease(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.broke(5_000)
    tale.server(5_500, "stopping")
    tale.server(5_510, "stopped")
    tale.server(5_600, "started")
    tale.cancelled(5_000 + LEASE_MS - 10, "one", "IN_FLIGHT")
    tale.over(60_000, one="CANCELLED")
    assert tale.wrong == []


def test_a_server_that_was_killed_knows_of_nothing_that_was_sent(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.broke(5_000)
    tale.server(5_100, "killed")
    tale.broke(5_100)
    tale.server(5_200, "started")
    tale.cancelled(5_300, "one", "IN_FLIGHT")
    tale.over(60_000, one="CANCELLED")
    assert [sentence[:2] for sentence in tale.wrong] == ["G7"]


# -- what is in hand over a crash -------------------------------------------------------------------------------------


def crash(tale: Tale, at_ms: float) -> None:
    tale.server(at_ms, "killed")
    tale.broke(at_ms)
    tale.server(at_ms + 10, "started")


@pytest.fixture
def in_hand(tale: Tale) -> Tale:
    """One task, with a worker since 5,000."""
    tale.stored(1_000, "one", 5_000)
    tale.came(5_000, "one", 5_000)
    return tale


def g5(tale: Tale) -> list[str]:
    return [sentence for sentence in tale.wrong if sentence.startswith("G5")]


HELD = ["G5: one was delivered while w1 had it in hand"]


def test_what_a_worker_brings_after_a_crash_is_in_hand(in_hand: Tale) -> None:
    crash(in_hand, 5_100)
    in_hand.came_back(5_200, b"one")
    in_hand.came(5_300, "one", 5_000, worker="w2")
    assert g5(in_hand) == HELD


def test_before_it_is_brought_nobody_knows_of_it(in_hand: Tale) -> None:
    crash(in_hand, 5_100)
    in_hand.came(5_150, "one", 5_000, worker="w2")
    in_hand.came_back(5_200, b"one")
    assert g5(in_hand) == []


def test_until_it_is_brought_the_task_may_be_moved(in_hand: Tale) -> None:
    crash(in_hand, 5_100)
    moving = in_hand.call(5_120, Verb.MOVE, "move", "one", fire_at_ms=6_000)
    in_hand.came_back(5_200, b"one")
    in_hand.came(6_000, "one", 6_000, worker="w2", delivery=b"one again")
    in_hand.reply(6_100, moving, "6000")
    assert g5(in_hand) == []


def test_a_move_that_was_asked_for_before_it_came_may_be_carried_out_until_it_is_brought(tale: Tale) -> None:
    """By another try, after the crash."""
    tale.stored(1_000, "one", 5_000)
    tale.call(4_999, Verb.MOVE, "move", "one", fire_at_ms=8_000)
    tale.came(5_000, "one", 5_000)
    crash(tale, 5_100)
    tale.moved(5_120, "one", 8_000)
    tale.came_back(5_200, b"one")
    tale.came(8_000, "one", 8_000, worker="w2", delivery=b"one again")
    assert g5(tale) == []


def test_a_move_that_was_answered_before_it_came_is_none_that_may_be_carried_out(tale: Tale) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.moved(2_000, "one", 6_000)
    tale.came(6_000, "one", 6_000)
    crash(tale, 6_100)
    tale.came_back(6_200, b"one")
    tale.came(8_000, "one", 6_000, worker="w2", delivery=b"one again")
    assert g5(tale) == HELD


def test_once_it_is_brought_a_move_comes_too_late(in_hand: Tale) -> None:
    crash(in_hand, 5_100)
    in_hand.came_back(5_200, b"one")
    in_hand.call(5_220, Verb.MOVE, "move", "one", fire_at_ms=6_000)
    in_hand.came(6_000, "one", 6_000, worker="w2", delivery=b"one again")
    assert g5(in_hand) == HELD


def test_without_a_crash_it_is_known_all_the_time(in_hand: Tale) -> None:
    in_hand.broke(5_100)
    in_hand.call(5_120, Verb.MOVE, "move", "one", fire_at_ms=6_000)
    in_hand.came_back(5_200, b"one")
    in_hand.came(6_000, "one", 6_000, worker="w2", delivery=b"one again")
    assert g5(in_hand) == HELD


@pytest.mark.parametrize(("action", "held"), [("reject", []), ("nack", HELD)])
def test_what_another_worker_rejected_may_live_again(in_hand: Tale, action: str, held: list[str]) -> None:
    """The rejected one is dead; the one that failed is not."""
    crash(in_hand, 5_100)
    in_hand.came(5_150, "one", 5_000, worker="w2")
    in_hand.said(5_160, "one", action, worker="w2")
    crash(in_hand, 5_170)
    in_hand.came_back(5_200, b"one")
    in_hand.call(5_300, Verb.REDRIVE, "redrive", "one")
    in_hand.came(5_400, "one", 5_300, worker="w2", delivery=b"one again")
    assert g5(in_hand) == held


def twice(in_hand: Tale, *, worker: str = "w1") -> None:
    """Its lease is over, and the same attempt came again."""
    in_hand.came(5_000 + LEASE_MS, "one", 5_000, worker=worker)
    in_hand.broke(8_100, worker=worker)


def test_what_a_worker_says_of_one_of_two_copies_is_the_end_of_both(in_hand: Tale) -> None:
    """It says it again as soon as it is back, with the other copy in hand."""
    twice(in_hand)
    in_hand.said(8_200, "one", "reject")
    in_hand.came_back(8_300, b"one")
    in_hand.came(8_300, "one", 5_000, worker="w2", attempt=2)
    assert g5(in_hand) == []


def test_a_copy_is_in_hand_as_long_as_its_worker_says_nothing(in_hand: Tale) -> None:
    twice(in_hand)
    in_hand.came_back(8_300, b"one")
    in_hand.came(8_300, "one", 5_000, worker="w2", attempt=2)
    assert g5(in_hand) == HELD


def test_what_a_worker_says_does_not_end_the_copy_of_another(in_hand: Tale) -> None:
    twice(in_hand, worker="w2")
    in_hand.said(8_200, "one", "reject")
    in_hand.came_back(8_300, b"one", worker="w2")
    in_hand.came(8_300, "one", 5_000, worker="w3", attempt=2)
    assert g5(in_hand) == ["G5: one was delivered while w2 had it in hand"]


def test_what_a_worker_says_of_an_attempt_does_not_end_the_next_one(in_hand: Tale) -> None:
    in_hand.came(5_000 + LEASE_MS, "one", 5_000, attempt=2)
    in_hand.said(8_200, "one", "reject")
    in_hand.came(8_300, "one", 5_000, worker="w2", attempt=3)
    assert g5(in_hand) == HELD


@pytest.mark.parametrize("attempt", [1, 2], ids=["same attempt", "next attempt"])
def test_what_was_said_before_a_crash_does_not_end_what_came_after_it(in_hand: Tale, attempt: int) -> None:
    """It is said once more after the crash, and heard after the same attempt has been sent again."""
    crash(in_hand, 5_100)
    in_hand.said(5_200, "one", "nack")
    in_hand.came(5_300, "one", 5_000, attempt=attempt)
    in_hand.came(5_400, "one", 5_000, worker="w2", attempt=2)
    assert g5(in_hand) == HELD


@pytest.mark.parametrize(("delivery", "held"), [(b"one", []), (b"one again", HELD)], ids=["the old one", "its own"])
def test_an_ack_on_its_way_holds_its_own_delivery_beyond_the_lease(
    in_hand: Tale, delivery: bytes, held: list[str]
) -> None:
    """Not the delivery that the same worker got when the task lived again."""
    in_hand.said(5_100, "one", "reject")
    in_hand.call(5_200, Verb.REDRIVE, "redrive", "one")
    in_hand.came(5_300, "one", 5_200, delivery=b"one again")
    in_hand.events.append(Settled(5_400, "w1", 9, "ack", "one", delivery, 1))
    in_hand.came(5_300 + LEASE_MS, "one", 5_200, worker="w2", delivery=b"one again", attempt=2)
    assert g5(in_hand) == held


def test_what_was_confirmed_is_not_said_again(in_hand: Tale) -> None:
    """The second copy that the worker brings back later is in hand like any other."""
    twice(in_hand)
    in_hand.said(8_200, "one", "nack")
    in_hand.confirmed(8_201)
    in_hand.came_back(8_300, b"one")
    in_hand.came(8_300, "one", 5_000, worker="w2", attempt=2)
    assert g5(in_hand) == HELD


@pytest.mark.parametrize(("has_crashed", "held"), [(True, []), (False, HELD)])
def test_over_a_stop_only_what_was_brought_after_a_crash_is_forgotten(
    in_hand: Tale, has_crashed: bool, held: list[str]
) -> None:
    """Of what it sent itself a server that stops in peace leaves word to the next one."""
    if has_crashed:
        crash(in_hand, 5_100)
    else:
        in_hand.broke(5_100)
    in_hand.came_back(5_200, b"one")
    in_hand.server(5_300, "stopping")
    in_hand.server(5_310, "stopped")
    in_hand.server(5_320, "started")
    in_hand.came(5_330, "one", 5_000, worker="w2")
    assert g5(in_hand) == held


@pytest.mark.parametrize(
    ("extended_ms", "came_ms", "held"),
    [(6_000, 8_500, HELD), (7_000, 12_118, HELD), (7_000, 12_120, [])],
    ids=["before", "its worker may return", "on its way out"],
)
def test_a_lease_that_is_extended_while_the_server_stops_may_be_unknown_to_the_next_one(
    in_hand: Tale, extended_ms: float, came_ms: float, held: list[str]
) -> None:
    """Who had it has five seconds to come back, whenever the lease ends that was handed over."""
    in_hand.extended(extended_ms, b"one")
    in_hand.server(6_500, "stopping")
    in_hand.events.sort(key=lambda event: event.at_ms)
    in_hand.broke(7_100, going_away=True)
    in_hand.server(7_110, "stopped")
    in_hand.server(7_120, "started")
    in_hand.came(came_ms, "one", 5_000, worker="w2")
    assert g5(in_hand) == held


@pytest.mark.parametrize(
    ("hung_up", "after_ms", "held"),
    [(False, GRACE_MS, HELD), (True, GRACE_MS, []), (True, GRACE_MS - 2, HELD)],
    ids=["ended by the server", "broken, after the grace", "broken, within the grace"],
)
def test_a_server_that_goes_away_keeps_the_leases_of_the_streams_that_it_ends_itself(
    in_hand: Tale, hung_up: bool, after_ms: float, held: list[str]
) -> None:
    """A worker that dies before that is one more that does not come back within the grace."""
    in_hand.broke(5_100, going_away=True, hung_up=hung_up)
    in_hand.came(5_100 + after_ms, "one", 5_000, worker="w2")
    assert g5(in_hand) == held


def test_who_comes_back_from_a_server_that_went_away_has_its_delivery_in_hand_again(in_hand: Tale) -> None:
    in_hand.broke(5_100, going_away=True, hung_up=True)
    in_hand.came_back(5_200, b"one")
    in_hand.came(5_200 + GRACE_MS, "one", 5_000, worker="w2")
    assert g5(in_hand) == HELD


@pytest.mark.parametrize(("is_acked", "held"), [(True, []), (False, HELD)])
def test_a_confirmed_ack_is_the_end_of_what_was_in_hand(in_hand: Tale, is_acked: bool, held: list[str]) -> None:
    """Here of a delivery that a move has left behind: what the move promised does not wait for it."""
    in_hand.moved(5_010, "one", 6_000)
    if is_acked:
        in_hand.acked(5_500, "one")
    in_hand.came(6_000, "one", 6_000, worker="w2", delivery=b"one again")
    assert g5(in_hand) == held


# -- order, of what is loaded -----------------------------------------------------------------------------------------


LATE_MS = 2 * BUCKET_MS
EARLIER, LATER = BUCKET_MS - 2_000, BUCKET_MS + 10


@pytest.fixture
def ordered() -> Tale:
    """Two tasks of one bucket and two of the next; the server starts when all are due."""
    tale = Tale(ordered=True)
    for name, fire_at_ms in (("a1", EARLIER), ("a2", EARLIER + 1), ("b1", LATER), ("b2", LATER + 1)):
        tale.stored(1_000, name, fire_at_ms)
    tale.server(LATE_MS - 1_000, "started")
    return tale


def g9(tale: Tale) -> list[str]:
    return [sentence for sentence in tale.wrong if sentence.startswith("G9")]


def test_of_two_buckets_the_later_one_may_be_loaded_first(ordered: Tale) -> None:
    ordered.came(LATE_MS, "b1", LATER)
    ordered.came(LATE_MS + 1, "a1", EARLIER)
    ordered.came(LATE_MS + 1, "b2", LATER + 1)
    assert g9(ordered) == ["G9: b2 was delivered before a2, whose turn it was"]


@pytest.mark.parametrize(
    ("before_ms", "held"), [(1_000, []), (1_001, ["G9: b was delivered before a, whose turn it was"])]
)
def test_of_two_buckets_the_order_holds_to_a_second(before_ms: int, held: list[str]) -> None:
    tale = Tale(ordered=True)
    for name, fire_at_ms in (("a0", 2_000), ("a", BUCKET_MS - before_ms), ("b", BUCKET_MS)):
        tale.stored(1_000, name, fire_at_ms)
    tale.came(LATE_MS, "a0", 2_000)
    tale.came(LATE_MS, "b", BUCKET_MS)
    assert g9(tale) == held


@pytest.mark.parametrize(
    ("earlier_ms", "held"), [(276_000, []), (276_001, ["G9: b was delivered before a, whose turn it was"])]
)
def test_a_task_on_demand_comes_before_what_waits_in_line_for_256_seconds_more(
    earlier_ms: int, held: list[str]
) -> None:
    """And twice its own ten."""
    tale, due_ms = Tale(ordered=True), 280_000
    tale.stored(1_000, "a", due_ms - earlier_ms)
    tale.stored(1_000, "b", due_ms, on_demand=True)
    tale.came(due_ms + 10_000, "b", due_ms)
    assert g9(tale) == held


def test_what_is_in_one_bucket_is_loaded_together(ordered: Tale) -> None:
    ordered.came(LATE_MS, "b2", LATER + 1)
    assert g9(ordered) == ["G9: b2 was delivered before b1, whose turn it was"]


def test_a_server_that_starts_has_loaded_nothing(ordered: Tale) -> None:
    ordered.came(LATE_MS, "a1", EARLIER)
    ordered.server(LATE_MS + 1, "stopped")
    ordered.server(LATE_MS + 2, "started")
    ordered.came(LATE_MS + 3, "b1", LATER)
    assert g9(ordered) == []


@pytest.mark.parametrize(("attempts", "says"), [(19, ["G3: one is a dead letter, and nobody rejected it"]), (20, [])])
def test_after_the_last_attempt_it_may_be_a_dead_letter(tale: Tale, attempts: int, says: list[str]) -> None:
    tale.stored(1_000, "one", 5_000)
    for number in range(1, attempts + 1):
        tale.came(5_000 + LEASE_MS * number, "one", 5_000, attempt=number)
    tale.over(600_000, one="DEAD")
    assert tale.wrong == says


@pytest.mark.parametrize(("answer", "is_wrong"), [("CANCELLED", True), ("IN_FLIGHT", False)])
def test_what_is_acked_in_the_end_was_not_answered_cancelled(tale: Tale, answer: str, is_wrong: bool) -> None:
    tale.stored(1_000, "a", 8_000)
    tale.came(8_000, "a", 8_000)
    tale.cancelled(8_010, "a", answer)
    tale.acked(8_020, "a")
    tale.over(60_000, a="ACKED")
    assert any("counts as acked, and CANCELLED" in sentence for sentence in tale.wrong) is is_wrong


EXPIRING = Wanted(1_100, "a", key="k", policy="KEEP", expire_at_ms=2_000)


def looked(tale: Tale, at_ms: float, state: str) -> None:
    tale.reply(at_ms + 1, tale.call(at_ms, Verb.GET, "", "old"), state)


def test_what_was_said_to_have_expired_is_not_sent(tale: Tale) -> None:
    tale.reply(1_001, tale.schedule(1_000, "old", EXPIRING), "stored")
    looked(tale, 1_500, "EXPIRED")
    tale.came(1_600, "old", 1_100)
    tale.over(60_000, old="EXPIRED")
    assert [sentence.partition(":")[0] for sentence in tale.wrong] == ["G7", "G7"]


def test_what_has_expired_is_not_pending_and_keeps_no_key(tale: Tale) -> None:
    tale.reply(1_001, tale.schedule(1_000, "old", EXPIRING), "stored")
    looked(tale, 1_500, "PENDING")
    tale.reply(1_511, tale.schedule(1_510, "in time", KEYED), "kept old")
    looked(tale, 2_100, "PENDING")
    tale.reply(2_111, tale.schedule(2_110, "late", KEYED), "kept old")
    tale.over(60_000, old="EXPIRED")
    assert tale.wrong == [
        "G7: old has expired, and is said to be PENDING",
        "G7: old has expired, and kept its key from late",
    ]


def test_a_repeat_says_who_had_the_key_when_the_call_was_made(tale: Tale) -> None:
    tale.reply(1_001, tale.schedule(1_000, "old", EXPIRING), "stored")
    tale.reply(1_511, tale.schedule(1_510, "in time", KEYED), "kept old")
    looked(tale, 2_100, "EXPIRED")
    tale.reply(3_001, tale.schedule(3_000, "in time", KEYED), "kept old")
    tale.over(60_000, old="EXPIRED")
    assert tale.wrong == []


def test_who_gets_the_key_of_what_has_expired_ends_it(tale: Tale) -> None:
    """By a clock that was ahead of its holder's."""
    tale.reply(1_001, tale.schedule(1_000, "old", EXPIRING), "stored")
    tale.reply(1_991, tale.schedule(1_990, "new", KEYED), "stored")
    tale.came(1_995, "old", 1_100)
    tale.acked(1_996, "old")
    tale.over(60_000, old="ACKED", new="CANCELLED")
    assert "G7: old was delivered after it had expired and new got its key" in tale.wrong


@pytest.mark.parametrize(("times", "is_wrong"), [(MOST_PUT_OFF - 1, False), (MOST_PUT_OFF, True)])
def test_what_a_worker_says_is_not_put_off_for_ever(tale: Tale, times: int, *, is_wrong: bool) -> None:
    tale.stored(1_000, "one", 5_000)
    tale.came(5_000, "one", 5_000)
    tale.said(5_010, "one", "ack")
    for _ in range(times):
        tale.put_off(5_011)
    assert any(sentence.startswith("G18: the ack of one was put off") for sentence in tale.wrong) is is_wrong
