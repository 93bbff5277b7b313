from __future__ import annotations

from timerd.core.dispatch.grants import LOAN_MS, Grants, Loan, Want
from timerd.core.taken import QueueKey

Q = QueueKey("default", "mail")
B, C = 1, 2
LOAN = Loan(B, 7, Q)


def test_what_is_plenty_is_given_as_asked() -> None:
    grants = Grants()
    grants.want(B, Q, Want(3, 100))
    grants.want(C, Q, Want(5, 50))
    assert grants.shares(Q, 20, own_key=None) == {B: 3, C: 5}


def test_what_is_short_is_divided_evenly_with_this_instance_among_them() -> None:
    grants = Grants()
    grants.want(B, Q, Want(100, 100))
    grants.want(C, Q, Want(100, 50))
    assert grants.shares(Q, 30, own_key=10) == {B: 10, C: 10}
    assert grants.shares(Q, 30, own_key=None) == {B: 15, C: 15}


def test_one_credit_goes_to_the_most_urgent_task() -> None:
    grants = Grants()
    grants.want(B, Q, Want(100, 100))
    grants.want(C, Q, Want(100, 50))
    assert grants.shares(Q, 1, own_key=60) == {C: 1}
    assert grants.shares(Q, 1, own_key=40) == {}
    assert grants.shares(Q, 2, own_key=60) == {C: 1}
    assert grants.shares(Q, 0, own_key=None) == {}


def test_who_wants_little_leaves_the_rest_to_the_others() -> None:
    grants = Grants()
    grants.want(B, Q, Want(2, 1))
    grants.want(C, Q, Want(100, 2))
    assert grants.shares(Q, 30, own_key=None) == {B: 2, C: 28}


def test_a_want_is_less_by_what_was_lent() -> None:
    grants = Grants()
    grants.want(B, Q, Want(3, 1))
    grants.lend(LOAN, 2, now_ms=0)
    assert grants.shares(Q, 10, own_key=None) == {B: 1}
    grants.lend(LOAN, 1, now_ms=0)
    assert grants.wanted() == []


def test_a_loan_is_called_in_after_its_time_and_what_was_used_does_not_come_back() -> None:
    grants = Grants()
    grants.lend(LOAN, 5, now_ms=10)
    grants.used(LOAN, 2)
    assert grants.next_wake_ms() == 10 + LOAN_MS
    assert grants.overdue(10 + LOAN_MS - 1) == []
    assert grants.overdue(10 + LOAN_MS) == [LOAN]
    assert grants.overdue(10 + LOAN_MS) == [], "once"
    grants.used(LOAN, 1)
    assert grants.returned(LOAN, 2, now_ms=3_000) == 2
    assert (grants.lent(7, Q), grants.next_wake_ms()) == (0, None)


def test_what_was_lent_after_the_call_begins_its_own_time() -> None:
    grants = Grants()
    grants.lend(LOAN, 5, now_ms=0)
    grants.overdue(LOAN_MS)
    grants.lend(LOAN, 4, now_ms=LOAN_MS)
    assert grants.returned(LOAN, 5, now_ms=LOAN_MS + 10) == 5
    assert grants.lent(7, Q) == 4
    assert grants.overdue(2 * LOAN_MS + 10) == [LOAN]


def test_a_broken_stream_gives_back_all_that_had_not_come() -> None:
    grants = Grants()
    grants.want(B, Q, Want(9, 1))
    grants.lend(LOAN, 5, now_ms=0)
    grants.used(LOAN, 1)
    assert grants.peer_gone(B) == [(LOAN, 4)]
    assert grants.peer_gone(B) == []
    assert grants.returned(LOAN, 4, now_ms=1) == 0, "said before it broke, heard after it"
    assert grants.wanted() == []


def test_credit_of_a_worker_that_is_gone_is_nobodys() -> None:
    grants = Grants()
    grants.lend(LOAN, 5, now_ms=0)
    grants.lend(Loan(B, 8, Q), 1, now_ms=0)
    grants.worker_gone(7)
    assert grants.returned(LOAN, 5, now_ms=1) == 0
    assert grants.peer_gone(B) == [(Loan(B, 8, Q), 1)]


def test_all_of_a_slow_worker_is_called_in() -> None:
    grants = Grants()
    grants.lend(LOAN, 5, now_ms=0)
    grants.lend(Loan(C, 8, Q), 1, now_ms=0)
    assert grants.call_in(8) == [Loan(C, 8, Q)]
    assert grants.call_in() == [LOAN]


def test_a_peer_that_speaks_of_more_than_it_has_is_taken_at_what_it_has() -> None:
    grants = Grants()
    grants.lend(LOAN, 2, now_ms=0)
    assert grants.returned(LOAN, 3, now_ms=0) == 2
    grants.used(LOAN, 1)
    assert grants.lent(7, Q) == 0
