"""An ack of what was carried to another instance: nobody extends its lease any more, and its row is not sent there
before it has been found, however slow the store is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.services.test_scheduler import trusted_time
from tests.unit.test_held_back import ID, SENT, carried
from tests.unit.test_partition_machine import HERE
from timerd.core.partition_machine import PartitionMachine
from timerd.core.settlement import Failure
from timerd.model.ack_token import AckToken
from timerd.model.errors import StoreUnknown
from timerd.model.partition import Partition
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.engine.firing import Firing
from timerd.services.engine.held_back import HeldBack
from timerd.services.engine.looking import Looking
from timerd.services.engine.verbs import LOOKED_FOR_MS
from timerd.services.holding.tickets import NoLongerHeld
from timerd.services.work.relay_service import HomeStream

ACKED = AckToken(HERE, SENT, 0)
NOW_MS = 1_000_000


class Rig:
    """`said`: what the others were told, and when the row was looked for."""

    def __init__(self, held: dict[Partition, PartitionMachine]) -> None:
        self.said: list[object] = []
        self.is_taken_over = False
        records = SimpleNamespace(durable=self._durable, settle_soon=lambda _: None)
        scheduler = SimpleNamespace(machines=held, held=records)
        self.firing = Firing(cast(Any, scheduler), trusted_time(), cast(Any, None), b"secret")
        self.firing.looking.tell = lambda delivery_id, hold_ms: self.said.append((delivery_id, hold_ms))

    async def _durable(self, _: PartitionMachine, ticket: int) -> None:
        self.said.append(("durable", ticket))
        if self.is_taken_over:
            raise NoLongerHeld("by another instance")

    def looks(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        async def look(_: AckToken) -> bool:
            self.said.append("looked")
            if error is not None:
                raise error
            return True

        monkeypatch.setattr(self.firing, "_end_where_it_lives", look)


async def test_whoever_has_the_row_holds_it_back_until_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the record that says where it went is not durable yet."""
    rig = Rig({})
    machine = carried(rig.firing._held_back)
    cast(Any, rig.firing)._scheduler.machines[HERE] = machine
    rig.looks(monkeypatch)
    assert await rig.firing.end_late(ACKED)
    assert rig.said == [(ID, LOOKED_FOR_MS), "looked", (ID, 0)]


@pytest.mark.parametrize("is_taken_over", [False, True])
async def test_what_waits_with_this_instance_is_no_matter_of_the_others(
    monkeypatch: pytest.MonkeyPatch, is_taken_over: bool
) -> None:
    """The record that says where it went is not durable yet: it is looked for after that, in the store if need be."""
    rig = Rig({})
    rig.is_taken_over = is_taken_over
    machine = carried(rig.firing._held_back)
    machines = cast(Any, rig.firing)._scheduler.machines
    machines[HERE] = machines[rig.firing._held_back.waits_in(ID, HERE)] = machine
    rig.looks(monkeypatch)
    assert await rig.firing.end_late(ACKED)
    assert rig.said == [("durable", machine.log.last_ticket), "looked"]


async def test_where_the_row_is_given_away_while_it_is_looked_for_the_others_hear_of_it_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was carried to the end of its lease for the hand-over, a moment before it was acked."""
    rig = Rig({})
    machine = carried(rig.firing._held_back)
    machines = cast(Any, rig.firing)._scheduler.machines
    machines[rig.firing._held_back.waits_in(ID, HERE)] = machine

    async def look(_: AckToken) -> bool:
        machines.clear()
        rig.firing.looking.gave_away()
        rig.firing.looking.gave_away()
        rig.said.append("found")
        return True

    monkeypatch.setattr(rig.firing, "_end_where_it_lives", look)
    assert await rig.firing.end_late(ACKED)
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS), "found", (ID, 0)]


async def test_after_an_error_they_hold_it_back_still_for_the_worker_says_it_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig({})
    rig.looks(monkeypatch, StoreUnknown("away"))
    with pytest.raises(StoreUnknown):
        await rig.firing.end_late(ACKED)
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS), "looked"]


async def test_a_failure_of_an_earlier_attempt_does_not_let_it_fire_while_its_ack_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attempt whose lease ran out fails at last, a moment after the next one was acked."""
    rig = Rig({})
    held_back, failed = rig.firing._held_back, list[AckToken]()

    async def fail(token: AckToken, _: Failure) -> bool:
        failed.append(token)
        return True

    async def look(token: AckToken) -> bool:
        assert not await rig.firing.fail_late(token, Failure(NOW_MS, "too slow"))
        return bool(held_back.lease_ms(SENT))

    monkeypatch.setattr(rig.firing, "_fail_where_it_waits", fail)
    monkeypatch.setattr(rig.firing, "_end_where_it_lives", look)
    assert await rig.firing.end_late(ACKED)
    assert not failed
    held_back.hold({ID: NOW_MS})
    assert await rig.firing.fail_late(ACKED, Failure(NOW_MS, "by itself"))
    assert (failed, held_back.lease_ms(SENT)) == ([ACKED], 0)


def test_of_two_acks_of_one_delivery_the_last_one_ends_it() -> None:
    held_back, said = HeldBack(), list[int]()
    looking = Looking(held_back)
    looking.tell = lambda _, hold_ms: said.append(hold_ms)
    first, second = (looking.for_row_of(ID, NOW_MS, is_elsewhere=False) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert held_back.lease_ms(SENT) == NOW_MS + LOOKED_FOR_MS
    looking.gave_away()
    second.__exit__(None, None, None)
    assert (held_back.lease_ms(SENT), said) == (0, [LOOKED_FOR_MS, 0])


def test_what_a_home_looks_for_does_not_fire_where_it_waits_until_it_says_that_it_is_over() -> None:
    held_back = HeldBack()
    looking, number = Looking(held_back), iter(range(9))
    delivery = SimpleNamespace(next_number=lambda: next(number))

    def looked_for(said: pb.AckLookedFor) -> None:
        looking.told(said.delivery_id, said.hold_ms, NOW_MS)

    home = HomeStream(cast(Any, delivery), cast(Any, None), lambda _: False, looked_for)
    home.take(pb.RelayRequest(looked_for=pb.AckLookedFor(delivery_id=ID, hold_ms=LOOKED_FOR_MS)))
    assert held_back.lease_ms(SENT) == NOW_MS + LOOKED_FOR_MS
    home.take(pb.RelayRequest(looked_for=pb.AckLookedFor(delivery_id=ID)))
    assert (held_back.lease_ms(SENT), held_back.is_active(NOW_MS)) == (0, False)


@pytest.mark.parametrize("error", [None, NoLongerHeld("given away")])
async def test_many_that_wait_here_are_held_back_until_their_end_is_durable(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """And longer, where another instance has them by then: the worker says it once more."""
    rig = Rig({})
    durable = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(rig.firing._elsewhere, "end_all_in_memory", lambda *_: ({SENT}, durable))
    ending = asyncio.create_task(rig.firing.end_late_here([ACKED]))
    await asyncio.sleep(0)
    rig.firing.looking.gave_away()
    assert rig.said == [(ID, LOOKED_FOR_MS)]
    if error is None:
        durable.set_result(None)
        assert await ending == []
        assert rig.said == [(ID, LOOKED_FOR_MS), (ID, 0)]
        return
    durable.set_exception(error)
    with pytest.raises(NoLongerHeld):
        await ending
    assert rig.said == [(ID, LOOKED_FOR_MS)]
    assert rig.firing._held_back.lease_ms(SENT)
