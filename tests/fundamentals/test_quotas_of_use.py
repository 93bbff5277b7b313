"""Quotas of what a namespace has: pending tasks, and bytes of payloads that are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.fundamentals.quota_rig import Schedule, scheduling
from timerd import Delivery, Reject
from timerd.client import CancelOutcome, Overloaded
from timerd.config import ServerConfig
from timerd.services.calls import quotas
from timerd.testing import Server

FILE = "[shop]\npending_tasks = 10\nstored_bytes = 1_000\n"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    file = tmp_path / "quotas.toml"
    file.write_text(FILE)
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", quotas_file=file)
    with patch.object(quotas, "LOOK_EVERY_S", 0.0):
        async with Server(config=config) as served:
            yield served


@pytest.fixture
async def schedule(server: Server) -> AsyncIterator[Schedule]:
    async with scheduling(server) as call:
        yield call


async def stored(server: Server) -> list[str]:
    return [task.id async for task in server.client(namespace="shop").list()]


async def test_more_pending_tasks_than_the_quota_are_refused_and_nothing_is_stored(
    server: Server, schedule: Schedule
) -> None:
    await schedule(8)
    with pytest.raises(Overloaded, match="may have 10 pending tasks, has 8, and this call asks for 3 more") as refused:
        await schedule(3)
    assert (refused.value.reason, refused.value.field, refused.value.retry_after) == ("QUOTA", "namespace", None)
    await schedule(2)
    counted = server.node.server.api.quotas
    assert counted.refused == {("shop", "pending_tasks"): 1}
    assert counted.in_use() == {("shop", "pending_tasks"): 10, ("shop", "stored_bytes"): 10}


async def test_what_is_done_dead_or_cancelled_makes_room(server: Server, schedule: Schedule) -> None:
    await schedule(8)
    ids = await stored(server)
    await schedule(2, delay_s=1)

    worker = server.worker(namespace="shop")
    seen = []

    @worker.on("mails")
    async def second_fails(delivery: Delivery) -> None:
        seen.append(delivery.task_id)
        if len(seen) == 2:
            raise Reject("no")

    async with server.working(worker):
        await server.advance(seconds=2)
    await schedule(2)
    assert set(await server.client(namespace="shop").cancel_many(ids)) == {CancelOutcome.CANCELLED}
    await schedule(8)
    with pytest.raises(Overloaded, match="has 10"):
        await schedule(1)


async def test_a_repeat_of_a_call_that_was_stored_is_not_refused(server: Server, schedule: Schedule) -> None:
    first = await schedule(10, request_id="once")
    assert await schedule(10, request_id="once") == first
    with pytest.raises(Overloaded):
        await schedule(10, request_id="twice")


async def test_payloads_count_until_their_history_is_gone(server: Server, schedule: Schedule) -> None:
    """Also those of tasks that were cancelled: the store keeps them."""
    client = server.client(namespace="shop")
    task = await client.schedule("mails", b"x" * 900, delay=60)
    await client.cancel(task.id)
    with pytest.raises(
        Overloaded, match="may have 1,000 bytes of payloads stored, has 900, and this call asks for 200"
    ):
        await schedule(1, size=200)
    await server.advance(days=3)
    await server.node.keep_house()
    await schedule(1, size=200)


async def test_calls_at_the_same_time_do_not_share_the_same_room(server: Server, schedule: Schedule) -> None:
    said = await asyncio.gather(*(schedule(4) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, Overloaded) for each in said) == 6
    assert len(await stored(server)) == 8


async def test_the_counts_outlive_a_restart_and_a_larger_quota_counts_at_once(
    server: Server, schedule: Schedule, tmp_path: Path
) -> None:
    await schedule(10)
    await server.restart()
    with pytest.raises(Overloaded, match="has 10"):
        await schedule(1)
    fresh = tmp_path / "fresh"
    fresh.write_text("[shop]\npending_tasks = 11\n")
    fresh.replace(tmp_path / "quotas.toml")
    await schedule(1)


async def test_what_was_moved_to_another_day_counts_once(server: Server, schedule: Schedule) -> None:
    client = server.client(namespace="shop")
    await schedule(10)
    for task in await stored(server):
        await client.reschedule(task, delay=3 * 86_400)
    await server.advance(days=2)
    await server.node.keep_house()
    with pytest.raises(Overloaded, match="has 10"):
        await schedule(1)
