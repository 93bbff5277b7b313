from __future__ import annotations

from timerd.core.dispatch.fair_share import MAX_CREDIT, FairShare
from timerd.core.taken import QueueKey

A, B = QueueKey("n", "a"), QueueKey("n", "b")


def test_queues_without_credit_are_not_listed() -> None:
    share = FairShare()
    share.add(1, A, 0)
    assert share.turn() == []
    share.add(1, B, 2)
    assert share.turn() == [B]
    share.split(B, 2)
    assert share.turn() == []
    share.check()


def test_a_served_queue_goes_to_the_end() -> None:
    share = FairShare()
    share.add(1, A, 10)
    share.add(1, B, 10)
    share.split(A, 1)
    assert share.turn() == [B, A]


def test_some_queues_in_turn_and_those_whose_workers_want_something_again() -> None:
    share = FairShare()
    share.add(1, A, 1)
    share.add(1, B, 2)
    assert (share.in_turn([B, A]), share.credited()) == ([A, B], {A, B})
    share.split(A, 1)
    share.add(1, A, 1)
    share.add(2, B, 1)
    assert (share.in_turn([A, B]), share.credited()) == ([B, A], {A})
    share.block(1)
    assert share.in_turn([B, A]) == [A, B], "it has no credit now"
    share.unblock(1)
    assert share.credited() == {A}
    share.check()


def test_tasks_are_spread_evenly_over_workers_within_their_credit() -> None:
    share = FairShare()
    for worker, credit in ((1, 2), (2, 50), (3, 50)):
        share.add(worker, A, credit)
    given = dict(share.split(A, 60))
    assert given[1] == 2
    assert sorted((given[2], given[3])) in ([28, 30], [29, 29], [20, 38], [24, 34])
    assert sum(given.values()) == 60
    share.check()


def test_single_tasks_rotate() -> None:
    share = FairShare()
    for worker in (1, 2, 3):
        share.add(worker, A, 5)
    assert [share.split(A, 1)[0][0] for _ in range(6)] == [1, 2, 3, 1, 2, 3]


def test_a_blocked_worker_keeps_its_credit_aside() -> None:
    share = FairShare()
    share.add(1, A, 5)
    share.block(1)
    share.add(1, A, 2)
    assert (share.turn(), share.credit(1, A)) == ([], 7)
    share.unblock(1)
    assert (share.turn(), share.wanted(A)) == ([A], 7)
    share.check()


def test_credit_is_capped_and_ends_with_the_worker() -> None:
    share = FairShare()
    share.add(1, A, 4_000_000_000)
    assert share.wanted(A) == MAX_CREDIT
    share.drop(1)
    assert share.wanted(A) == 0
    share.check()


def test_nothing_is_kept_of_a_queue_that_a_worker_has_left() -> None:
    """What stands for the workers of another instance is one worker for months, whatever queues these have had."""
    share = FairShare()
    share.add(1, A, 0)
    share.add(1, B, 2)
    share.leave(1, A)
    share.leave(2, A)
    assert share._queues == {1: {B}}
    share.block(1)
    share.leave(1, B)
    share.unblock(1)
    assert (share._queues, share.turn()) == ({1: set()}, [])
    share.check()
