from __future__ import annotations

from timerd.core.dispatch.demand import MAX_ASKED, Ask, Demand
from timerd.core.taken import QueueKey

Q = QueueKey("default", "mail")
A, C = 1, 2


def serving(*homes: int) -> Demand:
    demand = Demand()
    for home in homes:
        demand.serve(home, Q)
    return demand


def test_a_home_is_asked_for_what_is_due_beyond_the_credit() -> None:
    demand = serving(A)
    assert demand.asks(Q, near=1, far=9, credit=4, key=5) == [], "enough for the next moment"
    assert demand.asks(Q, near=5, far=9, credit=4, key=5) == [Ask(A, Q, 5, 5)]


def test_a_question_is_repeated_only_when_it_has_doubled() -> None:
    demand = serving(A)
    assert demand.asks(Q, 2, 2, 0, key=5) == [Ask(A, Q, 2, 5)]
    assert demand.asks(Q, 3, 3, 0, key=5) == []
    assert demand.asks(Q, 4, 4, 0, key=5) == [Ask(A, Q, 4, 5)]
    demand.granted(A, Q, 4)
    assert demand.asks(Q, 1, 1, 0, key=6) == [Ask(A, Q, 1, 6)]


def test_it_is_repeated_as_well_when_what_is_first_is_more_urgent_by_half_a_level() -> None:
    """As a task on demand is, which comes while others have been asked for."""
    demand = serving(A)
    assert demand.asks(Q, 9, 9, 0, key=99_000) == [Ask(A, Q, 9, 99_000)]
    assert demand.asks(Q, 10, 10, 0, key=67_001) == []
    assert demand.asks(Q, 10, 10, 0, key=67_000) == [Ask(A, Q, 10, 67_000)]
    assert demand.asks(Q, 10, 10, 0, key=35_001) == [], "told a moment ago"


def test_and_when_it_is_less_urgent_again() -> None:
    """Else all that waits in line here would count as on demand."""
    demand = serving(A)
    assert demand.asks(Q, 9, 9, 0, key=0) == [Ask(A, Q, 9, 0)]
    assert demand.asks(Q, 8, 8, 0, key=31_999) == []
    assert demand.asks(Q, 8, 8, 0, key=32_000) == [Ask(A, Q, 8, 32_000)]


def test_a_question_is_taken_back_when_nothing_is_due_any_more() -> None:
    demand = serving(A)
    demand.asks(Q, 2, 2, 0, key=5)
    assert demand.asks(Q, 0, 0, 0, key=5) == [Ask(A, Q, 0, 5)]
    assert demand.asks(Q, 0, 0, 0, key=5) == []


def test_each_home_is_asked_for_its_share() -> None:
    demand = serving(A, C)
    assert demand.asks(Q, 5, 5, 0, key=1) == [Ask(A, Q, 3, 1), Ask(C, Q, 3, 1)]
    demand.granted(A, Q, 3)
    assert demand.asks(Q, 2, 2, 0, key=1) == [Ask(A, Q, 1, 1)], "the other one has not answered"


def test_at_most_so_much_is_asked_at_a_time() -> None:
    assert serving(A).asks(Q, 1, 1_000_000, 0, key=1) == [Ask(A, Q, MAX_ASKED, 1)]


def test_a_home_that_is_gone_is_not_asked() -> None:
    demand = serving(A, C)
    demand.home_gone(A)
    demand.granted(A, Q, 1)
    assert demand.asks(Q, 1, 1, 0, key=1) == [Ask(C, Q, 1, 1)]
    demand.leave(C, Q)
    assert demand.queues() == []
    assert demand.asks(Q, 1, 1, 0, key=1) == []
    demand.check()
