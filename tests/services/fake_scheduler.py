"""As much of a scheduler as those ask for who settle deliveries: its partitions are the test's, and nothing is held."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.partition import Memory
from timerd.services.holding.halted_tasks import HaltedTasks
from timerd.services.holding.halting import Halting
from timerd.services.holding.read_through import ReadThrough
from timerd.services.holding.row_finder import RowFinder


def scheduler_with(machines: Any, held: object = None, store: Any = None, procedures: Any = None) -> Any:  # noqa: ANN401
    """`held` sees to what is durable; `store` and `procedures` find rows that have left."""
    memory = Memory(1 << 30)
    return SimpleNamespace(
        machines=machines,
        held=held,
        opening=(),
        procedures=procedures,
        finder=RowFinder(store, machines, procedures),
        deliveries=Deliveries.none(),
        memory=memory,
        halting=Halting(memory.order_keys, store, HaltedTasks(store, procedures).find),
        read_through=ReadThrough(machines, lambda _: True, memory.order_keys.kept_shards, lambda _: False),
    )
