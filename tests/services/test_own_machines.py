"""What an instance answers from its own machines while they come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import NoReturn, cast

from timerd.core.procedures import AskToEnd, HolderAnswer
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.settle import Outcome
from timerd.services.holding.held import Held
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.holding.tickets import NoLongerHeld

PLACE = Partition(TIME_SCOPE, 0, 0)


async def test_a_partition_may_be_lost_while_a_row_of_it_is_on_its_way() -> None:
    """As when its lease lapses at that moment: nobody holds it here, and that is the answer."""

    def lost(*_: object) -> NoReturn:
        raise NoLongerHeld("It has another holder.")

    on_its_way = SimpleNamespace(log=SimpleNamespace(has_left=lambda _: False, last_ticket=1))
    held = SimpleNamespace(machines={PLACE: on_its_way}, durable=lost)
    own = OwnMachines(cast(Held, held))
    asking = asyncio.create_task(own.ask_to_end([AskToEnd(PLACE, RowKey(1, bytes(16), 0), Outcome.CANCELLED, b"")]))
    await asyncio.sleep(0)
    held.machines.clear()
    assert await asking == [HolderAnswer(None)]
