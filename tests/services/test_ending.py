"""Many cancels in one call: those that cannot go together go side by side, and an error in their midst is unknown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.property.world import START_MS, World
from tests.unit.procedure_rig import scheduled
from timerd.client import CancelOutcome, Client
from timerd.core.partition import Asked
from timerd.core.protocol.cancel import Cancelled
from timerd.core.protocol.procedures import (
    AskToEnd,
    AskToEndMany,
    HolderAnswer,
    MarkAndLook,
    Request,
    SetMarks,
    Together,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown, Unavailable
from timerd.model.identity import TaskId, parse_task_id
from timerd.model.settle import Outcome
from timerd.services.engine.ending import end_all
from timerd.services.holding.driving import Performs
from timerd.testing import Server
from timerd.worker import Delivery, Retry

TASKS = 40


class Counting:
    """How many marks are written together at most; the store is away from the `fails_at`th request on that follows the
    first marks, these included."""

    def __init__(self, runner: Performs, fails_at: int = 0) -> None:
        self.most = self._asked = 0
        self._runner = runner
        self._fails_at = fails_at

    async def perform(self, request: Request) -> object:
        if isinstance(request, SetMarks):
            self.most = max(self.most, len(request.marks))
        self._asked += bool(self.most)
        if 0 < self._fails_at <= self._asked:
            raise StoreUnavailable("The disk is gone.", "STORE_UNAVAILABLE")
        return await self._runner.perform(request)


async def carried(server: Server, client: Client) -> list[TaskId]:
    """Tasks that wait for their second attempt, so none of them is where its id says."""
    worker = server.worker()

    @worker.on("q")
    async def later(_: Delivery) -> None:
        raise Retry(delay=3600)

    await worker.start()
    tasks = await client.schedule_many("q", [(str(number), timedelta(seconds=1)) for number in range(TASKS)])
    await server.advance(minutes=10)
    return [id_ for task in tasks if (id_ := parse_task_id(task.id)) is not None]


async def test_what_was_carried_on_is_cancelled_side_by_side() -> None:
    async with Server() as server:
        ids = await carried(server, server.client())
        counting = Counting(server.node.scheduler.procedures)
        assert await end_all(ids, Outcome.CANCELLED, b"r", counting) == [Cancelled.CANCELLED] * TASKS
        assert counting.most == TASKS


@pytest.mark.parametrize(("fails_at", "error"), [(1, StoreUnavailable), (2, StoreUnknown)])
async def test_an_error_after_a_write_leaves_the_outcome_unknown(fails_at: int, error: type[Exception]) -> None:
    async with Server() as server:
        ids = await carried(server, server.client())
        with pytest.raises(error):
            await end_all(ids, Outcome.CANCELLED, b"r", Counting(server.node.scheduler.procedures, fails_at))


class Away:
    """The first that looks for its rows finds the store away; the others' marks may have been written."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._looks = 0

    async def perform(self, request: Request) -> object:
        if isinstance(request, MarkAndLook):
            raise StoreUnknown("The store did not say.")
        self._looks += isinstance(request, Together)
        if isinstance(request, Together) and self._looks == 1:
            raise StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")
        return await self._runner.perform(request)


async def test_a_mark_that_may_be_written_leaves_the_outcome_unknown_where_another_group_wrote_nothing() -> None:
    async with Server() as server:
        tasks = await server.client().schedule_many("q", [(b"x", timedelta(hours=hours)) for hours in (1, 2)])
        ids = [id_ for task in tasks if (id_ := parse_task_id(task.id)) is not None]
        with pytest.raises(StoreUnknown):
            await end_all(ids, Outcome.CANCELLED, b"r", Away(server.node.scheduler.procedures), side_by_side=2)


async def test_each_has_its_answer_also_where_a_task_is_named_twice() -> None:
    async with Server() as server:
        client = server.client()
        tasks = await client.schedule_many("nobody", [(b"x", timedelta(hours=1))] * 3)
        await client.cancel(tasks[1].id)
        said = await client.cancel_many([task.id for task in (*tasks, tasks[0])])
        assert list(said) == [
            CancelOutcome.CANCELLED,
            CancelOutcome.ALREADY_CANCELLED,
            CancelOutcome.CANCELLED,
            CancelOutcome.CANCELLED,
        ]


class Silent:
    """The holder has said that the task went on elsewhere, and does not answer any more."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner

    async def perform(self, request: Request) -> object:
        match request:
            case AskToEndMany(_, keys):
                return [HolderAnswer(Asked.ENDED, Outcome.CARRIED)] * len(keys)
            case AskToEnd():
                return HolderAnswer(Asked.SILENT)
        return await self._runner.perform(request)


async def test_a_cancel_that_has_marked_its_task_is_no_repeat_of_itself() -> None:
    """On the long way it finds its own mark, which says nothing of an earlier try."""
    world = World()
    [task] = scheduled(world, 30_000)
    runner = Silent(world.runner)
    said = await end_all([task.id], Outcome.CANCELLED, b"r", runner, now_ms=START_MS)
    assert said == [Cancelled.PENDING]
    with pytest.raises(Unavailable) as refused:
        await end_all([task.id], Outcome.CANCELLED, b"r", runner, now_ms=START_MS)
    assert refused.value.reason == "HOLDER_SILENT"
