"""A queue of which much is due goes in steps of a few milliseconds; the others do not wait with it."""

from __future__ import annotations

import asyncio

import pytest

from tests.services.fake_firing import FakeAlarm, FakeFiring
from tests.unit.deliveries import NOW_MS, taken_of
from timerd.core.dispatch.delivery_machine import Assignment, DeliveryMachine
from timerd.core.dispatch.interrupts import InterruptReason
from timerd.core.dispatch.pacing import WINDOW_MS
from timerd.model.task import Template
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent

SMALL = Template("default", "small")
BEGIN_MS = NOW_MS + 1_000 - 1_000 % WINDOW_MS


class Reader:
    """A worker that has room for everything."""

    number = 1
    namespace = "default"
    closing = False
    counts_as_worker = True
    takes_backlog = True

    def __init__(self) -> None:
        self.queues: list[str] = []

    def deliver(self, assignment: Assignment) -> Sent:
        self.queues.append(assignment.taken.rows.template_of(0).queue)
        return Sent(1, 200 * len(assignment.taken))

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        raise AssertionError("it settles nothing")

    def confirm(self, confirmation: Confirmation) -> None:
        raise AssertionError("it settles nothing")

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        raise AssertionError("nobody cancels")

    def go_away(self) -> None:
        raise AssertionError("nobody stops")


class Town:
    """Twelve tasks of one queue fall due in each millisecond."""

    def __init__(self, credit: int) -> None:
        self.firing, self.alarm, self.reader = FakeFiring(), FakeAlarm(), Reader()
        self.delivery = Delivery(self.firing, self.alarm, DeliveryMachine(self.firing.secret, 1_000))
        self.delivery.join(self.reader, "default", 30_000)
        self.delivery.credit(self.reader, "mail", credit)
        self.delivery.credit(self.reader, "small", 10)
        for n in range(3 * WINDOW_MS):
            self.firing.put(taken_of(range(12), position_ms=BEGIN_MS + n, prefix=b"%012d" % n))

    def sent_at(self, after_ms: int) -> int:
        """How many leave when the alarm rings then."""
        before, self.firing.now_ms = self.delivery.in_flight, BEGIN_MS + after_ms
        self.alarm.ring()
        return self.delivery.in_flight - before


async def town_of(credit: int) -> Town:
    town = Town(credit)
    # The round for which its set-up asked.
    await asyncio.sleep(0)
    return town


async def test_it_is_sent_to_the_millisecond_until_it_shows_how_much_it_is_and_then_in_steps() -> None:
    town = await town_of(100_000)
    sizes = [town.sent_at(n) for n in range(2 * WINDOW_MS)]
    assert sizes == [12] * (WINDOW_MS + 1) + [0, 0, 36] * (WINDOW_MS // 3)


async def test_what_the_next_step_sends_is_put_together_before_it() -> None:
    town = await town_of(100_000)
    for n in range(WINDOW_MS):
        town.sent_at(n)
    await asyncio.sleep(0)
    assert town.firing.prepared == []
    assert town.sent_at(WINDOW_MS) == 12
    for _ in range(500):
        if not town.firing.prepared:
            await asyncio.sleep(0.01)
    ((queue, until_ms),) = town.firing.prepared
    assert queue.queue == "mail"
    assert until_ms >= BEGIN_MS + WINDOW_MS + 3


async def test_another_queue_goes_at_once_and_the_alarm_says_when_the_next_step_is() -> None:
    town = await town_of(100_000)
    end = 2 * WINDOW_MS
    for n in range(end):
        town.sent_at(n)
    assert town.sent_at(end) == 0
    town.firing.put(taken_of([0], SMALL, position_ms=BEGIN_MS, prefix=b"another-one."))
    await asyncio.sleep(0)
    assert town.reader.queues[-1] == "small"
    assert town.alarm.at_ms == BEGIN_MS + end + 2
    assert [town.sent_at(end + 1), town.sent_at(end + 2)] == [0, 36]


async def test_credit_that_comes_back_is_used_at_once() -> None:
    """What waited for credit has waited long enough."""
    town = await town_of(12 * WINDOW_MS + 1)
    for n in range(2 * WINDOW_MS):
        town.sent_at(n)
    assert town.delivery.in_flight == 12 * WINDOW_MS + 1
    town.delivery.credit(town.reader, "mail", 1_000)
    await asyncio.sleep(0)
    assert town.delivery.in_flight > 12 * WINDOW_MS + 1


@pytest.mark.parametrize("back_ms", [1, 10, 3_600_000])
async def test_nothing_is_early_when_the_clock_is_set_back(back_ms: int) -> None:
    town = await town_of(100_000)
    for n in range(2 * WINDOW_MS):
        town.sent_at(n)
    assert town.sent_at(2 * WINDOW_MS - 1 - back_ms) == 0


async def test_credit_is_looked_at_only_where_something_may_wait_for_it() -> None:
    town = await town_of(100)
    rounds: list[int] = []

    def firing_ms() -> int:
        rounds.append(1)
        return BEGIN_MS - 1

    async def rounds_after(queue: str) -> int:
        rounds.clear()
        town.delivery.credit(town.reader, queue, 5)
        await asyncio.sleep(0)
        return len(rounds)

    town.firing.firing_ms = firing_ms  # type: ignore[method-assign]
    assert [await rounds_after("mail"), await rounds_after("new"), await rounds_after("new")] == [0, 1, 0]
    town.delivery.machine.block(town.reader.number)
    assert await rounds_after("mail") == 1


async def test_an_error_of_the_clock_costs_a_pause() -> None:
    town = await town_of(100)
    times_ms = iter([None, BEGIN_MS])

    def firing_ms() -> int | None:
        now_ms = next(times_ms)
        if now_ms is None:
            raise RuntimeError("the clock is away")
        return now_ms

    town.firing.firing_ms = firing_ms  # type: ignore[method-assign]
    town.alarm.ring()
    for _ in range(500):
        if not town.delivery.in_flight:
            await asyncio.sleep(0.01)
    assert town.delivery.in_flight == 12
