"""A round of delivery looks at the queues for which something is due, however many have workers."""

from __future__ import annotations

import math

import pytest

from tests.services.fake_firing import FakeFiring
from tests.unit.deliveries import NOW_MS, taken_of
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.taken import QueueKey
from timerd.model.task import Template
from timerd.services.dispatch import due_looks
from timerd.services.dispatch.due_looks import LOOK_EVERY_MS, LOOKED_AT, DueLooks

MANY = 500


def queue_of(number: int) -> QueueKey:
    return QueueKey("default", f"queue-{number}")


class CountingFiring(FakeFiring):
    """Counts the looks at one queue."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def next_due_ms(self, queue: QueueKey) -> int | None:
        self.looks += 1
        return super().next_due_ms(queue)


class Rig:
    """One worker of many queues."""

    def __init__(self) -> None:
        self.firing = CountingFiring()
        self.machine = DeliveryMachine(self.firing.secret, 1_000)
        self.machine.join(1, "default", 30_000)
        for number in range(MANY):
            self.machine.credit(1, queue_of(number).queue, 10)
        self.looks = DueLooks(self.machine, self.firing)
        assert self.look() == []
        assert self.firing.looks == MANY, "of none it is known"
        self.firing.looks = 0

    def put(self, number: int, position_ms: int = NOW_MS) -> None:
        template = Template("default", queue_of(number).queue)
        prefix = f"{number:012}".encode()
        self.firing.put(taken_of([1], template, prefix=prefix, position_ms=position_ms))

    def look(self, now_ms: int = NOW_MS) -> list[QueueKey]:
        return self.looks.look(now_ms)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_what_got_rows_is_looked_at_and_little_else(rig: Rig) -> None:
    rig.put(400)
    rig.put(7, NOW_MS + 5)
    assert rig.look() == [queue_of(400)]
    assert rig.look() == [queue_of(400)], "until it has been visited"
    assert (rig.looks.soon(NOW_MS + 5, 10), rig.looks.next_ms()) == (2, NOW_MS)
    rig.looks.seen(queue_of(400), math.inf)
    assert (rig.look(), rig.looks.next_ms()) == ([], NOW_MS + 5)
    assert rig.firing.looks <= 3 * LOOKED_AT + 2


def test_queues_are_visited_in_turn(rig: Rig) -> None:
    for number in (3, 1, 2):
        rig.put(number)
    rig.machine.capacity.share.split(queue_of(1), 1)
    assert rig.look() == [queue_of(2), queue_of(3), queue_of(1)]


def test_a_worker_that_reads_slowly_costs_no_look_at_each_of_its_queues(rig: Rig) -> None:
    rig.put(400)
    for _ in range(5):
        assert rig.look() == [queue_of(400)]
        rig.machine.block(1)
        assert rig.looks.due_ms(queue_of(400)) == math.inf
        rig.looks.seen(queue_of(400), math.inf)
        assert rig.looks.next_ms() == math.inf
        rig.machine.unblock(1)
    assert rig.firing.looks <= 5 * (LOOKED_AT + 1) + 1


def test_what_comes_while_nobody_wants_it_is_found_when_somebody_does(rig: Rig) -> None:
    rig.machine.block(1)
    rig.put(400)
    assert rig.look() == []
    rig.machine.unblock(1)
    assert rig.look() == [queue_of(400)]


def test_what_waits_for_more_than_time_is_looked_at_in_each_round(rig: Rig) -> None:
    rig.put(400)
    assert rig.look() == [queue_of(400)]
    rig.looks.held_up(queue_of(400))
    assert rig.looks.next_ms() == math.inf
    assert rig.look() == [queue_of(400)]


def test_one_that_was_missed_is_found_in_its_turn(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put(400)
    rig.firing.touched()
    monkeypatch.setattr(due_looks, "LOOKED_AT", 100)
    assert [rig.look(NOW_MS + n * LOOK_EVERY_MS) for n in range(6)][-1] == [queue_of(400)]


def test_rounds_that_follow_each_other_at_once_look_at_nothing_in_turn(rig: Rig) -> None:
    rig.look(NOW_MS + LOOK_EVERY_MS)
    rig.firing.looks = 0
    assert rig.look(NOW_MS + LOOK_EVERY_MS) == rig.look(NOW_MS + 2 * LOOK_EVERY_MS - 1) == []
    assert rig.firing.looks == 0
    rig.look(NOW_MS + 2 * LOOK_EVERY_MS)
    assert rig.firing.looks == LOOKED_AT
    # The clock was set back.
    rig.look(NOW_MS)
    assert rig.firing.looks == 2 * LOOKED_AT


def test_of_a_queue_without_workers_nothing_is_kept(rig: Rig) -> None:
    assert len(rig.looks._times) == MANY
    for number in range(MANY):
        assert rig.machine.leave(1, queue_of(number))
        rig.looks.forget(queue_of(number))
    assert rig.look() == []
    assert len(rig.looks._times) == 0
