"""What an instance answers from its own machines while they come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from timerd.core.dispatch import RETURN_MS, Deliveries, DeliveryMachine, RedeliveryGuard
from timerd.core.partition import PartitionMachine
from timerd.core.partition.holding import Asked
from timerd.core.protocol.procedures import AskToEnd, AskToMove, HolderAnswer
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.settle import Outcome
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.held import Held
from timerd.services.holding.log_waits import NoLongerHeld
from timerd.services.holding.own_machines import OwnMachines

PLACE = Partition(TIME_SCOPE, 0, 0)


async def test_a_partition_may_be_lost_while_a_row_of_it_is_on_its_way() -> None:
    """As when its lease lapses at that moment: nobody holds it here, and that is the answer."""

    def lost(*_: object) -> NoReturn:
        raise NoLongerHeld("It has another holder.")

    on_its_way = SimpleNamespace(has_left=lambda _: False, last_lsn=1)
    held = SimpleNamespace(machines={PLACE: on_its_way}, durable=lost)
    own = OwnMachines(cast(Held, held))
    asking = asyncio.create_task(own.ask_to_end([AskToEnd(PLACE, RowKey(1, bytes(16), 0), Outcome.CANCELLED, b"")]))
    await asyncio.sleep(0)
    held.machines.clear()
    assert await asking == [HolderAnswer(None)]


async def test_what_has_ended_can_be_waited_for_until_no_crash_takes_it_back() -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ended = SimpleNamespace(last_lsn=1)
    held = SimpleNamespace(machines={PLACE: ended}, durable=lambda *_: written)
    own = OwnMachines(cast(Held, held))
    waiting = asyncio.create_task(own.until_durable(PLACE))
    await asyncio.sleep(0)
    assert not waiting.done()
    written.set_result(None)
    assert await waiting


async def test_whoever_lost_the_partition_meanwhile_does_not_know_whether_it_was_written() -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    written.set_exception(NoLongerHeld("It has another holder."))
    held = SimpleNamespace(machines={PLACE: SimpleNamespace(last_lsn=1)}, durable=lambda *_: written)
    own = OwnMachines(cast(Held, held))
    assert not await own.until_durable(PLACE)
    assert not await own.until_durable(PLACE._replace(shard=1)), "nobody holds it here"


async def test_what_a_worker_came_back_with_cannot_be_moved_whoever_is_asked() -> None:
    """Before its partition is held again, and while the next holder has not read the row: it would fire once more."""
    has_it, away = RowKey(1, bytes(16), 0), RowKey(2, bytes(16), 0)
    still_reads = SimpleNamespace(ask=lambda _: (Asked.UNKNOWN, None), suspend=lambda *_: None)
    held = SimpleNamespace(machines={}, has_lease=lambda key: key == has_it)
    own = OwnMachines(cast(Held, held))
    nobody = HolderAnswer(None)
    assert own.or_with_worker(AskToMove(PLACE, has_it), nobody) == HolderAnswer(Asked.OPEN)
    assert own.or_with_worker(AskToMove(PLACE, away), nobody) == nobody
    # One machine alone asks itself, whoever holds the partition.
    assert own.ask_to_move(AskToMove(PLACE, has_it)) == HolderAnswer(Asked.OPEN)
    assert own.ask_to_move(AskToMove(PLACE, away)) == nobody
    held.machines[PLACE] = still_reads
    assert own.ask_to_move(AskToMove(PLACE, has_it)) == HolderAnswer(Asked.OPEN)
    assert own.ask_to_move(AskToMove(PLACE, away)) == HolderAnswer(Asked.UNKNOWN)


@pytest.mark.parametrize(("is_with_worker", "asked"), [(True, Asked.OPEN), (False, Asked.WAITING)])
def test_a_row_whose_worker_has_extended_its_lease_elsewhere_is_not_free_to_move(
    is_with_worker: bool, asked: Asked
) -> None:
    """The lease that the row was carried with is over, and nobody has taken it since: only then would it be carried on
    to the end of the lease as it is by now."""
    suspended: list[bytes] = []
    waits = SimpleNamespace(ask=lambda _: (Asked.WAITING, None), suspend=lambda digest, _: suspended.append(digest))
    held = SimpleNamespace(machines={PLACE: waits}, has_lease=lambda _: is_with_worker)
    answer = OwnMachines(cast(Held, held)).ask_to_move(AskToMove(PLACE, RowKey(1, bytes(16), 0)))
    assert answer == HolderAnswer(asked)
    assert bool(suspended) is not is_with_worker, "a move that does not happen holds nothing up"


TAKEN_OVER_MS = 1_000_000


@pytest.mark.parametrize(
    ("now_ms", "position_ms", "may_return"),
    [
        (TAKEN_OVER_MS + 1, TAKEN_OVER_MS - 1, True),
        (TAKEN_OVER_MS + RETURN_MS - 1, TAKEN_OVER_MS - 1, True),
        # Who has it would have been heard of.
        (TAKEN_OVER_MS + RETURN_MS, TAKEN_OVER_MS - 1, False),
        # It was not due before.
        (TAKEN_OVER_MS + 10, TAKEN_OVER_MS + 1, False),
    ],
)
def test_a_worker_may_come_back_with_what_was_due_before_the_partition_was_taken_over(
    now_ms: int, position_ms: int, *, may_return: bool
) -> None:
    deliveries = Deliveries(DeliveryMachine(b"", 0), RedeliveryGuard())
    held = Held(cast(EngineTime, SimpleNamespace(exact_ms=lambda: now_ms)), 0.0, deliveries, cast(Any, None))
    key = RowKey(position_ms, bytes(16), 0)
    assert held.may_return(PLACE, key) is None, "nobody holds it here"
    held.machines[PLACE] = cast(PartitionMachine, SimpleNamespace(since_ms=TAKEN_OVER_MS))
    assert held.may_return(PLACE, key) is may_return
    # As long as the records of the holder before are read.
    held.machines[PLACE] = cast(PartitionMachine, SimpleNamespace(since_ms=0))
    assert held.may_return(PLACE, key) is (position_ms <= now_ms)
    deliveries.hold_back({key: now_ms + 1})
    assert held.may_return(PLACE, key) is True, "it is back"


SOURCE, CARRIED_TO = RowKey(1_000, bytes(16), 0), RowKey(4_000, bytes(16), 0)


@pytest.mark.parametrize(
    ("outcome", "key", "in_hand"),
    [
        # The record of the next holder says that this row is over: its own worker may bring the end of it.
        (Outcome.DEAD, CARRIED_TO, False),
        # A record of a holder before, whose successor has sent it once more and carried it on.
        (Outcome.DEAD, SOURCE, True),
        (Outcome.CANCELLED, CARRIED_TO, True),
    ],
)
def test_a_row_that_stood_for_a_delivery_and_is_dead_since_is_in_nobodys_hand(
    outcome: Outcome, key: RowKey, *, in_hand: bool
) -> None:
    deliveries = Deliveries(DeliveryMachine(b"", 0), RedeliveryGuard())
    carry = SimpleNamespace(target=PLACE, position_ms=CARRIED_TO.position_ms, version=0)
    machine = SimpleNamespace(partition=PLACE, leaving=set(), carry_of=lambda _: carry)
    deliveries.carried(cast(PartitionMachine, machine), [SOURCE])
    held = Held(cast(EngineTime, SimpleNamespace(exact_ms=lambda: 5_000)), 0.0, deliveries, cast(Any, None))
    asked = AskToEnd(PLACE, key, outcome, b"")
    [said] = OwnMachines(held).or_in_hand([asked], [HolderAnswer(Asked.UNKNOWN)])
    assert said.in_hand is in_hand
