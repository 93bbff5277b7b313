"""One message with tasks from the next minutes to days ahead: each is looked up, moved, cancelled and fired as any
other. In memory, and on disk, where far tasks lie in day-wide groups until their day is near."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import CancelOutcome, Client, TaskState
from timerd.testing import Server

STEP = timedelta(hours=1, minutes=37)
COUNT = 60


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
async def test_tasks_of_one_message_over_days(tmp_path: Path, on_disk: bool) -> None:
    async with Server(data=tmp_path / "data" if on_disk else None) as server, server.client() as client:
        inbox, start = Inbox(server), server.now
        tasks = await client.schedule_many("mails", [(b"%d" % n, start + n * STEP) for n in reversed(range(COUNT))])
        tasks.reverse()
        await look(client, [task.id for task in tasks])
        assert await client.cancel(tasks[50].id) is CancelOutcome.CANCELLED
        await client.reschedule(tasks[59].id, at=start + 5 * STEP + timedelta(minutes=1))
        await inbox.works("mails")
        await server.advance(days=4)
        early, late = list(range(6)), list(range(6, 59))
        late.remove(50)
        assert inbox.payloads == [b"%d" % n for n in [*early, 59, *late]]
        assert inbox.times == [*(start + n * STEP for n in early), inbox.times[6], *(start + n * STEP for n in late)]
        await ledger(server)


async def look(client: Client, ids: list[str]) -> None:
    """Neither kind of look-up disturbs the tasks of other days."""
    assert (await client.get(ids[30])).payload == b"30"
    first = await client.get(ids[0])
    listed = [task async for task in client.list(start=first.fire_time + 16 * STEP, end=first.fire_time + 24 * STEP)]
    assert [task.id for task in listed] == ids[16:24]
    assert {task.state for task in listed} == {TaskState.PENDING}
