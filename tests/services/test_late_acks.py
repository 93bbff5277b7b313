"""Acks of what had ended before: a worker says once more what it was not told of, thousands of times after a crash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import cast

import pytest

from timerd.client import CancelOutcome, TaskState
from timerd.core.partition.holding import Asked, Phase
from timerd.core.taken import QueueKey
from timerd.model.ack_token import AckToken
from timerd.model.identity import RowKey, delivery_id_of, parse_task_id
from timerd.model.partition import Partition
from timerd.model.settle import Outcome
from timerd.services.engine.elsewhere import Elsewhere
from timerd.services.engine.firing import MOST_KEPT_BACK, SchedulerFiring
from timerd.services.engine.verbs import State
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
        lsn = machine.lsn
        assert await firing.end_late([*tokens, tokens[0]]) == [None] * 41
        assert {machine.recorded(token.key) for token in tokens} == {Outcome.ACKED}
        assert (machine.done_through, machine.lsn) == (lsn, lsn + 1)
        assert await firing.end_late(tokens) == [None] * 40
        assert (machine.done_through, machine.lsn) == (lsn, lsn + 1)
        await server.advance(minutes=2)
        assert came == []


async def test_what_waits_elsewhere_is_looked_for_there() -> None:
    async with Server() as server:
        here = await waiting(server, 3)
        [far] = await server.client().schedule_many("q", [("far", timedelta(days=3))])
        task = parse_task_id(far.id)
        assert task is not None
        there = AckToken(task.home, RowKey(task.position_ms, task.digest, 0), 1)
        firing = server.node.delivery._firing
        assert await firing.end_late([here[0], there, *here[1:]]) == [None] * 4


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
            carried.append(sum(machine.carry_of(token.key) is not None for token in tokens))
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
            monkeypatch.setattr(Elsewhere, "in_memory", lambda *_: None)
        for task in ids:
            key = RowKey(task.position_ms, task.digest, 0)
            machine = scheduler.machines[task.home]
            assert machine.phase is Phase.HOT
            assert machine.recorded(key) is Outcome.ACKED
            assert await server.node.delivery._firing.end_late([AckToken(task.home, key, 1)]) == [None]
            assert machine.done_through >= machine.last_lsn
        assert bool(looked) is not in_memory


async def leases_end(server: Server, count: int, queue: str = "q") -> tuple[list[str], list[AckToken]]:
    """So many tasks whose worker has died while it had them; ids, and the tokens that it had."""
    tasks = await server.client().schedule_many(queue, [(str(n), timedelta(seconds=1)) for n in range(count)])
    worker = server.worker(silent=True, lease=2.0)

    @worker.on(queue, concurrency=count)
    async def hangs(_: object) -> None:
        await server.sleep(hours=1)

    await worker.start()
    await server.advance(seconds=1)
    [batch, *_] = server.node.delivery.machine._flights.all()
    assert server.node.delivery.machine.in_flight == count
    token = batch.taken.token
    await worker.kill()
    ids = [id_ for task in tasks if (id_ := parse_task_id(task.id)) is not None]
    return [task.id for task in tasks], [AckToken(t.home, RowKey(t.position_ms, t.digest, 0), token) for t in ids]


class Looks:
    """How often the store is asked for rows, records and registers, and how many marks are written."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        store = server.node.scheduler.procedures._store
        for name in ("find", "look", "settled", "read", "mark"):
            monkeypatch.setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, ask: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def counted(*asked: object, **how: object) -> object:
            self.count += 1
            return await ask(*asked, **how)

        return counted


async def test_many_whose_leases_ended_long_ago_are_looked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their rows were carried on, and the holder has forgotten from where: one by one that took six questions each."""
    async with Server() as server:
        ids, tokens = await leases_end(server, 200)
        await server.advance(seconds=20)
        machine = server.node.scheduler.machines[tokens[0].partition]
        assert machine.floor_ms > tokens[0].key.position_ms
        looks = Looks(server, monkeypatch)
        assert await server.node.delivery._firing.end_late(tokens) == [None] * 200
        assert looks.count <= 10
        assert {(await server.client().get(each)).state for each in ids} == {TaskState.ACKED}


async def test_what_they_ended_as_is_told_to_many_as_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether by memory, by the records, or by itself."""
    async with Server() as server:
        client = server.client()
        ids, tokens = await leases_end(server, 12)
        await server.advance(seconds=20)
        for each in ids[:4]:
            assert await client.cancel(each)
        await client.reschedule(ids[4], delay=timedelta(hours=2))
        assert await client.purge(start=server.now - timedelta(1), end=server.now + timedelta(hours=1), force=True)
        firing = cast(SchedulerFiring, server.node.delivery._firing)
        said = await firing.end_late(tokens)
        assert said == [State.CANCELLED] * 4 + [State.PENDING] + [State.PURGED] * 7
        assert [await firing.late_acks.end_one(token) for token in tokens] == said
        await server.advance(minutes=10)
        assert await firing.end_late(tokens) == said
        monkeypatch.setattr(Elsewhere, "in_memory", lambda *_: None)
        assert await firing.end_late(tokens) == said
        await server.advance(hours=30)
        assert set(await firing.end_late(tokens[:4])) == {State.FINISHED}


async def test_an_ack_from_before_a_crash_does_not_take_back_what_was_answered_since() -> None:
    """Nobody held the task when it was cancelled, so CANCELLED was said, and only the mark says so. The worker that had
    it comes back then. What was cancelled while it was known to be in hand is acked: IN_FLIGHT was said."""
    async with Server() as server:
        client = server.client()
        [task] = await client.schedule_many("q", [(b"x", timedelta(minutes=20))])
        assert await client.cancel(task.id, request_id="c") is CancelOutcome.CANCELLED
        await server.restart()
        await server.advance(minutes=19.5)
        home = parse_task_id(task.id)
        assert home is not None
        key, firing = RowKey(home.position_ms, home.digest, 0), server.node.delivery._firing
        machine = server.node.scheduler.machines[home.home]
        assert (machine.phase, machine.recorded(key)) == (Phase.HOT, None)
        assert await firing.end_late([AckToken(home.home, key, 1)]) == [State.CANCELLED]
        assert await client.cancel(task.id, request_id="c") is CancelOutcome.CANCELLED
        await server.advance(minutes=10)
        assert await client.cancel(task.id, request_id="c") is CancelOutcome.CANCELLED
        assert (await client.get(task.id)).state is TaskState.CANCELLED


async def test_what_an_ack_has_ended_before_its_row_was_read_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash the ack comes before the holder has read the row, so only its mark says that it counts."""
    async with Server() as server:
        client = server.client()
        [task] = await client.schedule_many("q", [(b"x", timedelta(minutes=20))])
        home = parse_task_id(task.id)
        assert home is not None
        token = AckToken(home.home, RowKey(home.position_ms, home.digest, 0), 1)
        assert await server.node.delivery._firing.end_late([token]) == [None]
        assert await client.cancel(task.id, request_id="c") is CancelOutcome.ALREADY_FIRED
        await server.advance(minutes=30)
        assert await client.cancel(task.id, request_id="c") is CancelOutcome.ALREADY_FIRED
        assert (await client.get(task.id)).state is TaskState.ACKED


async def test_of_what_the_holder_has_just_carried_on_the_record_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It still remembers that end, and says the same as the record: nobody has to be asked one by one."""
    async with Server() as server:
        _, tokens = await leases_end(server, 40)
        await server.advance(seconds=20)
        machine = server.node.scheduler.machines[tokens[0].partition]
        ask = machine.ask

        def remembers(key: RowKey) -> tuple[Asked, Outcome | None]:
            return (Asked.ENDED, Outcome.CARRIED) if key.position_ms < machine.floor_ms else ask(key)

        monkeypatch.setattr(machine, "ask", remembers)
        looks = Looks(server, monkeypatch)
        assert await server.node.delivery._firing.end_late(tokens) == [None] * 40
        assert looks.count <= 10
