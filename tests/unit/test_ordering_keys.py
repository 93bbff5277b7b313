"""Which task of an ordering key is sent, by a partition that was told this and that."""

from __future__ import annotations

from tests.unit.ordering_rig import instance, ordered
from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, START_MS, key
from timerd.core.ordering import LOOK_MS
from timerd.core.taken import LAST, Again
from timerd.model.ordering import ordered_extra
from timerd.model.rows import single_row
from timerd.model.settle import CarryReason, Outcome
from timerd.model.task import Template

URGENT = Template(*QUEUE, priority=9)


def test_the_next_one_is_sent_when_the_end_of_the_one_before_is_durable() -> None:
    here = instance(ordered(key(1), key(2), key(3, 2_000)))
    assert here.taken() == [key(1)]
    assert here.taken() == []
    here.ends(key(1))
    assert here.taken() == []
    here.is_durable()
    assert here.taken() == [key(2)]
    here.ends(key(2), Outcome.DEAD)
    here.is_durable()
    assert here.taken() == [key(3, 2_000)]


def test_it_is_known_whose_end_another_one_waits_for() -> None:
    here = instance(ordered(key(1), key(2)), ordered(key(3), name="b"))
    assert not here.keys.keeps_back([key(1).digest]), "nothing of it is sent"
    assert sorted(here.taken()) == sorted([key(1), key(3)])
    assert here.keys.keeps_back([key(3).digest, key(1).digest])
    assert not here.keys.keeps_back([key(3).digest, key(2).digest]), "nothing waits for either of them"


def test_what_is_sent_beside_another_key_is_no_second_one_of_it() -> None:
    """Also where the two lie in one run: a later row waits in the due queue since it was the first for a while."""
    here = instance(ordered(key(2)))
    here.machine.hint(ordered(key(1, 500)), 0)
    assert here.taken() == [key(1, 500)]
    assert here.taken() == []


def test_keys_and_tasks_without_one_do_not_wait_for_each_other() -> None:
    plain = single_row(key(9), START_MS + 1_000, MAIL, b"body", ordered_extra(""), 0)
    here = instance(ordered(key(1), key(2)), ordered(key(3), key(4), name="b"), plain)
    assert sorted(here.taken()) == sorted([key(1), key(3), key(9)])


def test_priority_counts_between_keys_and_never_within_one() -> None:
    early, urgent = key(1, 1_000), key(2, 2_000)
    other = key(3, 3_000)
    here = instance(ordered(early), ordered(urgent, template=URGENT), ordered(other, name="b", template=URGENT))
    assert here.taken(1) == [other]
    assert here.taken() == [early]


def test_what_is_not_due_blocks_nobody_and_what_comes_later_with_an_earlier_time_goes_first() -> None:
    far = key(1, 100_000)
    here = instance(ordered(far))
    assert here.taken() == []
    here.machine.hint(ordered(key(2)), 0)
    assert here.taken() == [key(2)]
    here.now_ms += 100_000
    assert here.taken() == []


def test_equal_times_go_by_the_order_of_the_calls() -> None:
    """Whichever comes first to who sends them."""
    here = instance(ordered(key(2), base=10))
    here.machine.hint(ordered(key(1), base=5), 0)
    assert here.taken() == [key(1)]


def test_a_retry_stands_where_the_attempt_before_stood() -> None:
    """Rule O5: a restart that reads this partition meets it before those behind it."""
    here = instance(ordered(key(1), key(2)))
    [first] = here.taken()
    here.machine.again([Again(HERE, first, NOW_MS + 5_000, NOW_MS, "no")])
    here.writes(here.machine.flush())
    [back] = here.is_durable()
    assert back.keys() == [key(1, version=1)]
    assert back.extra_of(0).not_before_ms == NOW_MS + 5_000
    assert here.taken() == []
    here.now_ms += 5_000
    assert here.taken() == [key(1, version=1)]


def test_at_the_lag_limit_it_goes_to_the_backlog_at_its_place() -> None:
    here = instance(ordered(key(1), key(2)))
    [first] = here.taken()
    here.machine.guard({first: NOW_MS + 30_000}, NOW_MS, CarryReason.GUARD)
    carry = here.machine.carry_of(first)
    assert carry is not None
    assert (carry.target, carry.position_ms) == (HERE._replace(scope=MAIL.scope), first.position_ms)
    # Nothing of the queue that stands behind it may be sent before it is met there.
    assert here.machine.ordered_from_ms(MAIL.scope) == first.position_ms


def test_nothing_is_sent_that_may_not_be_the_first() -> None:
    """What has not been read, and what is being written, may come before it."""
    here = instance(ordered(key(1)))
    here.known_ms = key(1).position_ms
    assert here.taken() == []
    here.known_ms, here.now_ms = LAST, here.now_ms + LOOK_MS
    number = here.keys.begin_write(key(1).position_ms)
    assert here.taken() == []
    here.keys.end_write(number)
    here.now_ms += LOOK_MS
    assert here.taken() == [key(1)]


def test_what_was_there_before_a_restart_waits_for_workers_to_come_back() -> None:
    here = instance(ordered(key(1), base=-10), ordered(key(2), name="b", base=1 << 40))
    here.heard_by_ms = NOW_MS + 5_000
    assert here.taken() == [key(2)]
    here.now_ms += 5_000
    assert here.taken() == [key(1)]


def test_one_that_is_cancelled_is_passed_over_when_that_is_durable() -> None:
    here = instance(ordered(key(1), key(2), key(3)))
    assert here.taken() == [key(1)]
    here.machine.cancel(key(2), Outcome.CANCELLED, b"")
    here.machine.end_met(key(2), Outcome.CANCELLED)
    here.ends(key(1))
    here.is_durable()
    assert here.taken() == [key(3)]


def test_a_worker_that_has_it_keeps_its_key_though_another_one_has_ended_the_task() -> None:
    """Rule O7."""
    here = instance(ordered(key(1), key(2)))
    assert here.taken() == [key(1)]
    here.keys.hold(key(1).digest, NOW_MS + 30_000)
    here.ends(key(1))
    here.is_durable()
    here.keys.lapse(NOW_MS + 29_999)
    assert here.taken() == []
    here.keys.lapse(NOW_MS + 30_000)
    assert here.taken() == [key(2)]


def test_what_was_given_back_is_sent_again_before_the_next_one() -> None:
    here = instance(ordered(key(1), key(2)))
    assert here.taken() == [key(1)]
    assert here.machine.put_back(key(1))
    assert here.taken() == [key(1)]


def test_nothing_is_left_of_a_key_without_tasks() -> None:
    here = instance(ordered(key(1)))
    [only] = here.taken()
    here.ends(only)
    assert here.keys
    here.is_durable()
    assert not here.keys
    assert len(here.machine.ordered) == 0
