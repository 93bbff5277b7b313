"""Ended tasks keep their outcome for history_retention; then their bucket is dropped as a whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import CancelOutcome, Client, TaskState
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.testing import Server


@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_a_finished_bucket_is_dropped_after_a_day(kind: str, tmp_path: Path) -> None:
    """Twenty-three hours later the outcome is known and the rows are stored; two days later both are gone."""
    async with Server(data=tmp_path / "data" if kind == "disk" else None) as server:
        client, inbox = server.client(), Inbox(server)
        await inbox.works("mails")
        task = await client.schedule("mails", b"x" * 1000, delay=60)
        store = server.node.store
        home = (await _entries(server))[0]
        await server.advance(hours=23)
        assert (await client.get(task.id)).state is TaskState.ACKED
        assert await client.cancel(task.id) is CancelOutcome.ALREADY_FIRED
        assert len((await store.scan(home, home.bucket_ms, home.end_ms, 0, 1 << 20)).groups) == 1
        await server.advance(hours=25)
        assert (await client.get(task.id)).state is TaskState.FINISHED
        assert await client.cancel(task.id) is CancelOutcome.FINISHED
        page = await store.scan(home, home.bucket_ms, home.end_ms, 0, 1 << 20)
        assert (page.groups, page.marks, await store.settled(home)) == ([], [], [])
        assert inbox.payloads == [b"x" * 1000]


async def test_a_task_far_ahead_is_not_touched_by_it(server: Server, client: Client, inbox: Inbox) -> None:
    """Months later it comes at its instant."""
    await inbox.works("mails")
    at = server.now + timedelta(days=40)
    await client.schedule("mails", b"x", at=at)
    await server.advance(days=41)
    assert (inbox.payloads, inbox.times) == ([b"x"], [at])


async def _entries(server: Server) -> list[Partition]:
    entries = await server.node.store.catalogue(TIME_SCOPE, 0, 1 << 60)
    return [Partition(entry.scope, entry.bucket_ms, 0) for entry in entries]
