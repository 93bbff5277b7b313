"""The ledger of what is there while partitions come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from timerd.adapters.memory import MemoryStore
from timerd.config import ServerConfig
from timerd.core.dispatch.queue_stats import StatsByQueue
from timerd.core.partition.holding import Phase
from timerd.core.partition.memory import Memory
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control, RegisterKey, control_key
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Cas
from timerd.services.engine.engine_facts import Facts
from timerd.services.holding.halted_tasks import HaltedTasks
from timerd.services.holding.halting import Halting
from timerd.testing.contracts.build import tasks

PARTITION = Partition(TIME_SCOPE, 0, 0)
ENDED = {int(Outcome.ACKED): 3}


class Restless(MemoryStore):
    """While it reads, the partition that is held is let go of, or the one that was free is taken."""

    def __init__(self, machines: dict[Partition, Any], after: str) -> None:
        super().__init__()
        self._machines = machines
        self._after = after

    async def catalogue(self, *asked: Any) -> Any:  # noqa: ANN401 - as it is
        found = await super().catalogue(*asked)
        if self._after == "catalogue":
            self._machines.clear()
        return found

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        found = await super().read(keys)
        if self._after == "read":
            self._machines[PARTITION] = held()
        return found


def held(phase: Phase = Phase.HOT) -> Any:  # noqa: ANN401 - as much of a machine as is looked at
    ended = Counter(ENDED) if phase.counts_ends else Counter()
    return SimpleNamespace(
        phase=phase, queues=tuple, oldest_standing_ms=lambda _: None, waiting_rows=0, totals=lambda: ended
    )


@pytest.mark.parametrize("phase", [Phase.ACQUIRE, Phase.RECOVER, Phase.LOAD, Phase.HOT, Phase.COUNT, Phase.DONE])
async def test_a_bucket_counts_in_every_phase_of_its_holder(phase: Phase) -> None:
    """Also while somebody takes it, who knows nothing of it yet, for instance after a crash in its last step."""
    assert await counted_as_acked({PARTITION: held(phase)}) == 3


@pytest.mark.parametrize("after", ["catalogue", "read"])
async def test_a_bucket_counts_once_also_while_it_changes_hands(after: str) -> None:
    assert await counted_as_acked({PARTITION: held()} if after == "catalogue" else {}, after) == 3


async def counted_as_acked(machines: dict[Partition, Any], after: str = "") -> int:
    store = Restless(machines, after)
    await store.append([Append(((PARTITION, tasks("mails", [100, 200, 300])),))])
    control = Control(1, "", "", 0, 0, counts=tuple(ENDED.items()))
    await store.cas([Cas(control_key(PARTITION), None, control.to_bytes())])
    foreign = SimpleNamespace(foreign_rows=lambda: 0)
    deliveries = SimpleNamespace(machine=SimpleNamespace(queue_stats=StatsByQueue()))
    memory = Memory(1 << 20)
    halting = Halting(memory.order_keys, store, HaltedTasks(store, cast(Any, None)).find)
    common = {"held": foreign, "deliveries": deliveries, "halting": halting}
    parts = SimpleNamespace(machines=machines, memory=memory, scopes={}, **common)
    time = SimpleNamespace(exact_ms=lambda: 1_000.0, difference_ms=0.0, trusted=True)
    facts = Facts(store, cast(Any, parts), cast(Any, time), ServerConfig())
    return (await facts.read()).ledger["acked"]
