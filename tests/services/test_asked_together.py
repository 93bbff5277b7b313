"""What the procedures of many tasks ask at one time, performed as one request: each hears what it would hear alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from timerd.adapters.memory import MemoryStore
from timerd.core.partition import Asked
from timerd.core.protocol import AskToEnd, AskToEndEach, Ending, FindSettledEach, HolderAnswer
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.settle import Outcome
from timerd.services.holding.held import Held
from timerd.services.holding.log_waits import NoLongerHeld
from timerd.services.holding.peer_view import NoPeers
from timerd.services.holding.procedure_runner import ProcedureRunner

HERE, THERE = Partition(TIME_SCOPE, 0, 0), Partition(TIME_SCOPE, 0, 1)
KEYS = [RowKey(position_ms, bytes([position_ms] * 16), 0) for position_ms in (1, 2)]


class Far(NoPeers):
    """Another instance holds everything."""

    is_single = False

    def __init__(self) -> None:
        self.asked: list[tuple[Partition, int]] = []

    def is_here(self, partition: Partition) -> bool:
        return False

    async def ask_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        self.asked.append((partition, len(asks)))
        return [HolderAnswer(Asked.WAITING, None, ask.request) for ask in asks]


def acked_here(written: asyncio.Future[None]) -> ProcedureRunner:
    """Both tasks have ended in the memory of their holder, whose record is on its way."""
    phase = SimpleNamespace(answers=True)
    machine = SimpleNamespace(phase=phase, ask=lambda key: (Asked.ENDED, Outcome.ACKED), last_lsn=1)
    held = SimpleNamespace(machines={HERE: machine}, durable=lambda *_: written)
    return ProcedureRunner(MemoryStore(), cast(Held, held), lambda *_: None)


async def test_ends_are_said_when_no_crash_takes_them_back() -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(acked_here(written).perform(FindSettledEach(HERE, KEYS, durable=True)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    written.set_result(None)
    said = cast(list[Ending], await asking)
    assert [(each.outcome, each.is_known) for each in said] == [(Outcome.ACKED, True)] * 2


async def test_an_end_that_its_holder_will_not_write_is_none() -> None:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    written.set_exception(NoLongerHeld("It has another holder."))
    said = cast(list[Ending], await acked_here(written).perform(FindSettledEach(HERE, KEYS, durable=True)))
    assert [each.outcome for each in said] == [None, None]


async def test_a_holder_is_asked_once_for_all_rows_of_a_partition() -> None:
    far = Far()
    held = SimpleNamespace(machines={}, has_in_hand=lambda *_: False)
    runner = ProcedureRunner(MemoryStore(), cast(Held, held), lambda *_: None, lambda _: far)
    places = [(HERE, KEYS[0], b"a"), (THERE, KEYS[0], b"b"), (HERE, KEYS[1], b"c")]
    asks = [AskToEnd(partition, key, Outcome.CANCELLED, request) for partition, key, request in places]
    said = cast(list[HolderAnswer], await runner.perform(AskToEndEach(asks)))
    assert [each.request for each in said] == [b"a", b"b", b"c"]
    assert sorted(far.asked) == [(HERE, 2), (THERE, 1)]
