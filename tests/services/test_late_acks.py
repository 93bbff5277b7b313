"""Acks of what had ended before: a worker says once more what it was not told of, thousands of times after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from timerd.core.holding import Phase
from timerd.core.taken import QueueKey
from timerd.model.ack_token import AckToken
from timerd.model.identity import RowKey, delivery_id_of, parse_task_id
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.services.engine.elsewhere import Elsewhere
from timerd.services.engine.firing import MOST_KEPT_BACK
from timerd.testing import Server


async def waiting(server: Server, count: int) -> list[AckToken]:
    """So many are due in a minute; the acks of a worker that has them from before a restart."""
    tasks = await server.client().schedule_many("q", [(str(n), timedelta(seconds=60)) for n in range(count)])
    ids = [id_ for task in tasks if (id_ := parse_task_id(task.id)) is not None]
    await server.advance(seconds=1)
    return [AckToken(task.home, RowKey(task.position_ms, task.digest, 0), 1) for task in ids]


async def test_acks_of_many_that_wait_are_one_record() -> None:
    """One is said twice. What is said again has ended, and is answered as any other."""
    async with Server() as server:
        worker = server.worker()
        came: list[object] = []

        @worker.on("q")
        async def comes(delivery: object) -> None:
            came.append(delivery)

        await worker.start()
        tokens = await waiting(server, 40)
        firing, machine = server.node.delivery._firing, server.node.scheduler.machines[tokens[0].partition]
        ticket = machine.log.ticket
        assert await firing.end_late_here([*tokens, tokens[0]]) == []
        assert {machine.log.settled.get(token.key) for token in tokens} == {Outcome.ACKED}
        assert (machine.log.done_through, machine.log.ticket) == (ticket, ticket + 1)
        assert await firing.end_late_here(tokens) == tokens
        assert [await firing.end_late(token) for token in tokens] == [False] * 40
        await server.advance(minutes=2)
        assert came == []


async def test_what_waits_elsewhere_is_left_to_be_looked_for() -> None:
    async with Server() as server:
        here = await waiting(server, 3)
        [far] = await server.client().schedule_many("q", [("far", timedelta(days=3))])
        task = parse_task_id(far.id)
        assert task is not None
        there = AckToken(task.home, RowKey(task.position_ms, task.digest, 0), 1)
        firing = server.node.delivery._firing
        assert await firing.end_late_here([here[0], there, *here[1:]]) == [there]
        assert await firing.end_late(there) is True


async def test_the_loop_serves_others_while_what_a_worker_has_is_kept_back() -> None:
    """It came back with all that is due, and has credit."""
    async with Server() as server:
        tokens = await waiting(server, 3 * MOST_KEPT_BACK)
        firing, machine = server.node.delivery._firing, server.node.scheduler.machines[tokens[0].partition]
        until_ms = tokens[0].key.position_ms + 3_600_000
        firing.leased({delivery_id_of(token.key.digest, token.key.version): until_ms for token in tokens})
        await server.advance(minutes=1)
        carried = []
        for _ in range(4):
            now_ms = firing.firing_ms()
            assert now_ms is not None
            assert list(firing.take(QueueKey("default", "q"), 10, now_ms)) == []
            carried.append(sum(token.key in machine.log.carries for token in tokens))
        most = carried[0]
        assert MOST_KEPT_BACK <= most < MOST_KEPT_BACK + 10
        assert carried == [most, 2 * most, len(tokens), len(tokens)]


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
