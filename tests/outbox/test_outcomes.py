"""What becomes of a batch by the server's answer: nothing is given up for a reason that may pass."""

from __future__ import annotations

import pytest

from tests.outbox.made import cancel, move, schedule
from timerd.outbox.messages import rows_in
from timerd.outbox.outcomes import Next, of_calls, of_cancels, of_schedules, of_whole
from timerd.outbox.rows import SealedBatch
from timerd.outbox.sealing import batch_of
from timerd.sdk.values.errors import make_error
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

TWO = batch_of("0b5e", 2000, 1_800_000_000_000, [schedule(b"1", "a"), schedule(b"2")])
THREE = batch_of("0b5e", 2000, 1_800_000_000_000, [schedule(b"1", "a"), schedule(b"2"), schedule(b"3")])
ONE = batch_of("0b5e", 2000, 1_800_000_000_000, [schedule(b"1", "a")])
MOVES = batch_of("0b5e", 2000, 1_800_000_000_000, [move("a", 1), move("b", 1)])
CANCELS = batch_of("0b5e", 2000, 1_800_000_000_000, [cancel("a"), cancel("b")])


@pytest.mark.parametrize(
    ("code", "reason", "batch", "then"),
    [
        ("UNAVAILABLE", "", TWO, Next.AGAIN),
        ("UNAVAILABLE", "DRAINING", TWO, Next.AGAIN),
        ("DEADLINE_EXCEEDED", "", TWO, Next.AGAIN),
        ("INTERNAL", "", TWO, Next.AGAIN),
        ("DATA_LOSS", "", TWO, Next.AGAIN),
        ("FAILED_PRECONDITION", "", TWO, Next.AGAIN),
        ("PERMISSION_DENIED", "ROLE_MISSING", TWO, Next.AGAIN),
        ("UNAUTHENTICATED", "UNAUTHENTICATED", TWO, Next.AGAIN),
        ("UNIMPLEMENTED", "", TWO, Next.AGAIN),
        ("RESOURCE_EXHAUSTED", "DISK_FULL", TWO, Next.AGAIN),
        ("RESOURCE_EXHAUSTED", "QUOTA", TWO, Next.AGAIN),
        ("FAILED_PRECONDITION", "QUEUE_SHUT", TWO, Next.AGAIN),
        ("INVALID_ARGUMENT", "REQUEST_TOO_OLD", TWO, Next.ANEW),
        ("INVALID_ARGUMENT", "INVALID", TWO, Next.HALVES),
        ("INVALID_ARGUMENT", "INVALID", ONE, Next.DONE),
    ],
)
def test_of_a_call_that_failed_as_a_whole(code: str, reason: str, batch: SealedBatch, then: Next) -> None:
    outcome = of_whole(batch, make_error(code, "No.", reason, 0, ""))
    assert outcome.next is then
    assert [each.row.key for each in outcome.refused] == (["a"] if then is Next.DONE else [])


def result(
    index: int, code: int, reason: str, outcome: task_pb2.ItemOutcome = task_pb2.ITEM_OUTCOME_NOT_STORED
) -> pb.ItemResult:
    problem = task_pb2.Problem(code=code, message="No.", reason=reason)
    return pb.ItemResult(index=index, outcome=outcome, problem=problem)


def test_items_are_refused_one_by_one() -> None:
    kept = pb.ItemResult(index=0, outcome=task_pb2.ITEM_OUTCOME_KEPT)
    outcome = of_schedules(TWO, pb.ScheduleBatchResponse(results=[kept, result(1, 3, "PAYLOAD_TOO_LARGE")]))
    assert outcome.next is Next.DONE
    assert [(each.row.payload, each.reason) for each in outcome.refused] == [(b"2", "PAYLOAD_TOO_LARGE")]


def test_a_batch_whose_queue_is_shut_stays_as_it_is() -> None:
    """Nothing of it is remembered, and what was sent of it may arrive when the queue is open."""
    shut, large = [result(n, 9, "QUEUE_SHUT") for n in range(2)], result(0, 3, "PAYLOAD_TOO_LARGE")
    for results in (shut, [large, shut[1]]):
        outcome = of_schedules(TWO, pb.ScheduleBatchResponse(results=results))
        assert (outcome.next, {*outcome.shut}, outcome.refused, outcome.left) == (Next.AGAIN, {"mails"}, [], [])
    whole = of_whole(TWO, make_error("FAILED_PRECONDITION", "No.", "QUEUE_SHUT", 0, ""))
    assert whole.shut == {"mails"}


def test_what_is_left_of_a_batch_that_was_stored_in_part_goes_on() -> None:
    rows, stored = rows_in(THREE), pb.ItemResult(index=0, outcome=task_pb2.ITEM_OUTCOME_STORED)
    for reason, queues in (("QUEUE_SHUT", {"mails"}), ("REFUSED_BEFORE", set[str]())):
        results = [stored, result(1, 9, reason), result(2, 3, "PAYLOAD_TOO_LARGE")]
        outcome = of_schedules(THREE, pb.ScheduleBatchResponse(stored=1, results=results))
        assert (outcome.next, outcome.left, {*outcome.shut}) == (Next.REST, rows[1:2], queues)
        assert [each.row for each in outcome.refused] == rows[2:]


def test_an_item_of_which_nothing_is_known_has_the_whole_batch_sent_again() -> None:
    unknown = result(1, 2, "", task_pb2.ITEM_OUTCOME_UNKNOWN)
    outcome = of_schedules(TWO, pb.ScheduleBatchResponse(results=[result(0, 6, "KEY_TAKEN"), unknown]))
    assert (outcome.next, outcome.refused) == (Next.AGAIN, [])


def test_moves_have_answers_of_their_own() -> None:
    gone = make_error("NOT_FOUND", "No task has the key.", "NOT_FOUND", 0, "")
    raced = make_error("ABORTED", "Another call won.", "MOVED", 0, "")
    overtaken = make_error("ABORTED", "Made before.", "OVERTAKEN", 0, "")
    assert of_calls(MOVES, [gone, raced]).next is Next.AGAIN
    assert [each.row.key for each in of_calls(MOVES, [gone, None]).refused] == ["a"]
    assert [each.row.key for each in of_calls(MOVES, [None, overtaken]).refused] == ["b"]


def test_cancels_are_done_whatever_they_found() -> None:
    outcomes = [task_pb2.CANCEL_OUTCOME_NOT_FOUND, task_pb2.CANCEL_OUTCOME_CANCELLED]
    assert of_cancels(CANCELS, pb.CancelBatchResponse(outcomes=outcomes)).next is Next.DONE


def test_a_server_that_knows_no_keys_in_a_batch_is_waited_for() -> None:
    """It sees a call without any task, and would refuse every row of it."""
    outcome = of_whole(CANCELS, make_error("INVALID_ARGUMENT", "No task_ids.", "INVALID", 0, "task_ids"))
    assert (outcome.next, outcome.refused) == (Next.AGAIN, [])
    assert "bring it up to this one" in str(outcome.why)
