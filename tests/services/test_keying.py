"""What tries of one call say of its keys that run beside each other."""

from __future__ import annotations

import pytest

from tests.property.world import START_MS, World
from tests.simulator.asking import new_tasks
from tests.simulator.events import Wanted
from tests.unit.procedure_rig import NAME, scheduled, with_key
from timerd.core.protocol import Conflict, Procedure, TryCas, remember, reserve
from timerd.model.errors import Aborted
from timerd.model.identity import TaskId
from timerd.model.storage import CasResult, CasStatus
from timerd.services.engine.keying import Keying
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.driving import drive

WANTED = Wanted(START_MS + 9_000, "a", key="k", policy="REJECT")


def by_its_first_place(tasks: NewTasks) -> TaskId:
    return TaskId(START_MS + 9_000, 0, tasks.rows.template_of(0).scope, 0, tasks.prefix, 0, b"m" * 8)


async def test_who_finds_the_key_taken_of_a_task_that_another_try_writes_speaks_of_itself_only() -> None:
    """The other try may have lost the key when its task was with a worker: that one stands."""
    world = World()
    [rival] = scheduled(world, 30_000)
    with_key(world, rival)
    tasks = new_tasks("r", ("m",), (WANTED,))
    await drive(remember(b"kept" + tasks.prefix, b"{}", START_MS), world.runner)
    keys = await Keying(world.runner, lambda: START_MS).reserve(tasks, [by_its_first_place(tasks)], START_MS)
    assert (keys.refused[0].reason, keys.refused[0].only_this_try) == ("KEY_LOST", True)


async def test_who_finds_the_key_taken_and_writes_nothing_speaks_of_all_tries() -> None:
    world = World()
    [rival] = scheduled(world, 30_000)
    with_key(world, rival)
    tasks = new_tasks("r", ("m",), (WANTED,))
    keys = await Keying(world.runner, lambda: START_MS).reserve(tasks, [by_its_first_place(tasks)], START_MS)
    assert (keys.refused[0].reason, keys.refused[0].only_this_try) == ("KEY_TAKEN", False)


def never_applied(procedure: Procedure[object]) -> None:
    answer: object = None
    while True:
        request = procedure.send(answer)
        answer = CasResult(CasStatus.REFUSED, b"") if isinstance(request, TryCas) else None


def test_who_never_gets_at_the_key_speaks_of_itself_only() -> None:
    """Another try of the call may have been among those that changed it."""
    task = by_its_first_place(new_tasks("r", ("m",), (WANTED,)))
    with pytest.raises(Aborted) as refused:
        never_applied(reserve(NAME, task, Conflict.REPLACE))
    assert (refused.value.reason, refused.value.only_this_try) == ("KEY_LOST", True)
