"""Acks of what had ended before: a worker says once more what it was not told of, thousands of times after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from timerd.core.holding import Phase
from timerd.model.ack_token import AckToken
from timerd.model.identity import RowKey, parse_task_id
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.services.engine.elsewhere import Elsewhere
from timerd.testing import Server


@pytest.mark.parametrize("in_memory", [True, False])
async def test_an_ack_said_twice_is_answered_alike_by_the_holder_and_by_the_store(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server() as server:
        worker = server.worker()

        @worker.on("q")
        async def done(_: object) -> None:
            """Nothing."""

        await worker.start()
        tasks = await server.client().schedule_many("q", [(str(n), timedelta(seconds=1)) for n in range(3)])
        await server.advance(seconds=3)
        ids = [id_ for task in tasks if (id_ := parse_task_id(task.id)) is not None]
        scheduler = server.node.scheduler
        looked: list[object] = []
        find = scheduler.procedures._store.find

        async def noted(partition: Partition, keys: Sequence[tuple[int, bytes]]) -> object:
            looked.append(keys)
            return await find(partition, keys)

        monkeypatch.setattr(scheduler.procedures._store, "find", noted)
        if not in_memory:
            monkeypatch.setattr(Elsewhere, "end_in_memory", lambda *_: None)
        for task in ids:
            key = RowKey(task.position_ms, task.digest, 0)
            machine = scheduler.machines[task.home]
            assert machine.phase is Phase.HOT
            assert machine.log.settled.get(key) is Outcome.ACKED
            assert await server.node.delivery._firing.end_late(AckToken(task.home, key, 1)) is False
            assert machine.log.done_through >= machine.log.last_ticket
        assert bool(looked) is not in_memory
