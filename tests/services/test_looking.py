"""An ack of what was carried to another instance: nobody extends its lease any more, and its row is not sent there
before it has been found, however slow the store is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests.services.fake_scheduler import scheduler_with
from tests.services.scheduler_rig import trusted_time
from tests.unit.guard_rig import ID, SENT, carried
from tests.unit.partition_rig import HERE
from timerd.core.dispatch.redelivery_guard import RedeliveryGuard
from timerd.core.dispatch.settlement import Failure, Settlement
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.ack_token import AckToken
from timerd.model.errors import StoreUnknown
from timerd.model.partition import Partition
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.engine import looking as looking_module
from timerd.services.engine.elsewhere import Known
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.engine.looking import Looking
from timerd.services.engine.verbs import LOOKED_FOR_MS, State
from timerd.services.holding.log_waits import NoLongerHeld
from timerd.services.work.relay_service import HomeStream

ACKED = AckToken(HERE, SENT, 0)
NOW_MS = 1_000_000


class Rig:
    """`said`: what the others were told, and when the row was looked for."""

    def __init__(self, held: dict[Partition, PartitionMachine]) -> None:
        self.said: list[object] = []
        self.is_taken_over = False
        records = SimpleNamespace(durable=self._durable, settle_soon=lambda _: None)
        peers = cast(Any, SimpleNamespace(look_for=lambda *said: self.said.append(said)))
        scheduler, store = scheduler_with(held, records), cast(Any, None)
        self.firing = SchedulerFiring(scheduler, trusted_time(), store, b"secret", peers=peers)

    async def _durable(self, _: PartitionMachine, lsn: int) -> None:
        self.said.append(("durable", lsn))
        if self.is_taken_over:
            raise NoLongerHeld("by another instance")

    def looks(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        async def look(_: AckToken) -> None:
            self.said.append("looked")
            if error is not None:
                raise error

        monkeypatch.setattr(self.firing.late_acks, "_end_where_it_lives", look)


async def test_whoever_has_the_row_holds_it_back_until_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the record that says where it went is not durable yet."""
    rig = Rig({})
    machine = carried(rig.firing._redelivery_guard)
    cast(Any, rig.firing)._scheduler.machines[HERE] = machine
    rig.looks(monkeypatch)
    assert await rig.firing.late_acks.end_one(ACKED) is None
    assert rig.said == [(ID, LOOKED_FOR_MS), "looked", (ID, 0)]


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_what_waits_with_this_instance_is_no_matter_of_the_others(
    monkeypatch: pytest.MonkeyPatch, is_taken_over: bool
) -> None:
    """The record that says where it went is not durable yet: it is looked for after that, in the store if need be."""
    rig = Rig({})
    rig.is_taken_over = is_taken_over
    machine = carried(rig.firing._redelivery_guard)
    machines = cast(Any, rig.firing)._scheduler.machines
    machines[HERE] = machines[rig.firing._redelivery_guard.waits_in(ID, HERE)] = machine
    rig.looks(monkeypatch)
    assert await rig.firing.late_acks.end_one(ACKED) is None
    assert rig.said == [("durable", machine.last_lsn), "looked"]


async def test_where_the_row_is_given_away_while_it_is_looked_for_the_others_hear_of_it_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was carried to the end of its lease for the hand-over, a moment before it was acked."""
    rig = Rig({})
    machine = carried(rig.firing._redelivery_guard)
    machines = cast(Any, rig.firing)._scheduler.machines
    machines[rig.firing._redelivery_guard.waits_in(ID, HERE)] = machine

    async def look(_: AckToken) -> None:
        machines.clear()
        rig.firing.looking.gave_away()
        rig.firing.looking.gave_away()
        rig.said.append("found")

    monkeypatch.setattr(rig.firing.late_acks, "_end_where_it_lives", look)
    assert await rig.firing.late_acks.end_one(ACKED) is None
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS), "found", (ID, 0)]


async def test_after_an_error_they_hold_it_back_still_for_the_worker_says_it_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig({})
    rig.looks(monkeypatch, StoreUnknown("away"))
    with pytest.raises(StoreUnknown):
        await rig.firing.late_acks.end_one(ACKED)
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS), "looked"]


async def test_a_failure_of_an_earlier_attempt_does_not_let_it_fire_while_its_ack_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attempt whose lease ran out fails at last, a moment after the next one was acked."""
    rig = Rig({})
    redelivery_guard, failed = rig.firing._redelivery_guard, list[AckToken]()

    async def fail(token: AckToken, _: Failure) -> bool:
        failed.append(token)
        return True

    async def look(token: AckToken) -> None:
        assert await rig.firing.fail_late(token, Failure(NOW_MS, "too slow")) is State.ACKED
        assert redelivery_guard.lease_ms(SENT)

    monkeypatch.setattr(rig.firing.late_failures, "fail", fail)
    monkeypatch.setattr(rig.firing.late_acks, "_end_where_it_lives", look)
    assert await rig.firing.late_acks.end_one(ACKED) is None
    assert not failed
    redelivery_guard.hold({ID: NOW_MS})
    assert await rig.firing.fail_late(ACKED, Failure(NOW_MS, "by itself")) is None
    assert (failed, redelivery_guard.lease_ms(SENT)) == ([ACKED], 0)


class Told:
    """What the others were told, by the hold in ms."""

    def __init__(self) -> None:
        self.holds_ms: list[int] = []

    def look_for(self, _: bytes, hold_ms: int) -> None:
        self.holds_ms.append(hold_ms)

    async def again(self) -> None:
        before = len(self.holds_ms)
        for _ in range(100):
            if len(self.holds_ms) == before:
                await asyncio.sleep(0)


async def test_of_two_acks_of_one_delivery_the_last_one_ends_it() -> None:
    redelivery_guard, told = RedeliveryGuard(), Told()
    looking = Looking(redelivery_guard, lambda: NOW_MS, cast(Any, told))
    first, second = (looking.for_row_of(ID, is_elsewhere=False) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert redelivery_guard.lease_ms(SENT) == NOW_MS + LOOKED_FOR_MS
    looking.gave_away()
    second.__exit__(None, None, None)
    assert (redelivery_guard.lease_ms(SENT), told.holds_ms) == (0, [LOOKED_FOR_MS, 0])


@pytest.mark.parametrize("is_elsewhere", [True, False])
async def test_a_look_that_takes_longer_than_a_hold_goes_on_holding_it_back(
    monkeypatch: pytest.MonkeyPatch, is_elsewhere: bool
) -> None:
    """The way there has many steps, and the store is slow at each."""
    monkeypatch.setattr(looking_module, "RENEWED_EVERY_S", 0)
    redelivery_guard, told, clock = RedeliveryGuard(), Told(), iter(range(NOW_MS, NOW_MS + 1_000_000, 1_000))
    looking = Looking(redelivery_guard, lambda: next(clock), cast(Any, told))
    with looking.for_row_of(ID, is_elsewhere=is_elsewhere):
        if not is_elsewhere:
            looking.gave_away()
        first_ms = redelivery_guard.lease_ms(SENT)
        await told.again()
        await told.again()
        assert redelivery_guard.lease_ms(SENT) > first_ms
        assert told.holds_ms == [LOOKED_FOR_MS] * 3
    await asyncio.sleep(0)
    assert (redelivery_guard.lease_ms(SENT), told.holds_ms[-1]) == (0, 0)


async def some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_waits_to_be_looked_for_is_held_back_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn comes after tens of thousands of others, or some of its message are not found yet. A worker may say it
    twice; a failure of an earlier attempt does not count beside it."""
    monkeypatch.setattr(looking_module, "RENEWED_EVERY_S", 0)
    rig, late = Rig({}), Settlement(late={0: ID})
    redelivery_guard = rig.firing._redelivery_guard
    acked = [rig.firing.settling(late, NOW_MS) for _ in range(2)]
    rig.firing.answered(acked[0])
    assert await rig.firing.fail_late(ACKED, Failure(NOW_MS, "too slow")) is State.ACKED
    redelivery_guard.hold({ID: 0})
    await some_turns()
    assert redelivery_guard.lease_ms(SENT) > rig.firing.clock_ms()
    rig.firing.answered(acked[1])
    redelivery_guard.hold({ID: 0})
    await some_turns()
    assert not redelivery_guard.lease_ms(SENT)


def test_what_a_home_looks_for_does_not_fire_where_it_waits_until_it_says_that_it_is_over() -> None:
    redelivery_guard = RedeliveryGuard()
    looking, number = Looking(redelivery_guard, lambda: NOW_MS), iter(range(9))
    delivery = SimpleNamespace(next_number=lambda: next(number))

    def looked_for(said: pb.AckLookedFor) -> None:
        looking.told(said.delivery_id, said.hold_ms, NOW_MS)

    home = HomeStream(cast(Any, delivery), cast(Any, None), lambda _: False, looked_for)
    home.take(pb.RelayRequest(looked_for=pb.AckLookedFor(delivery_id=ID, hold_ms=LOOKED_FOR_MS)))
    assert redelivery_guard.lease_ms(SENT) == NOW_MS + LOOKED_FOR_MS
    home.take(pb.RelayRequest(looked_for=pb.AckLookedFor(delivery_id=ID)))
    assert (redelivery_guard.lease_ms(SENT), redelivery_guard.is_active(NOW_MS)) == (0, False)


@pytest.mark.parametrize("error", [None, NoLongerHeld("given away")])
async def test_many_that_wait_here_are_held_back_until_their_end_is_durable(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """And longer, where another instance has them by then: the worker says it once more."""
    rig = Rig({})
    durable = asyncio.get_running_loop().create_future()
    log, rows = SimpleNamespace(last_lsn=1, end=lambda _: None), SimpleNamespace(leave=lambda *_: None)
    machine = Mock(log=log, rows=rows)
    monkeypatch.setattr(rig.firing._elsewhere, "in_memory", lambda *_: Known(cast(Any, machine), SENT, None))
    monkeypatch.setattr(rig.firing._elsewhere, "durable", lambda *_: durable)
    ending = asyncio.create_task(cast(Any, rig.firing.end_late([ACKED])))
    await asyncio.sleep(0)
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS)]
    if error is None:
        durable.set_result(None)
        assert await ending == [None]
        assert rig.said == [(ID, LOOKED_FOR_MS), (ID, 0)]
        return
    durable.set_exception(error)
    assert await ending == [error]
    assert rig.said == [(ID, LOOKED_FOR_MS)]
    assert rig.firing._redelivery_guard.lease_ms(SENT)
