"""Get of a task of which only a mark tells that it was cancelled: whoever wrote it may have died before the holder was
asked."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.cluster.peer_rig import Pair
from timerd.adapters.memory import MemoryStore
from timerd.client import TaskState
from timerd.model.identity import RowKey, parse_task_id
from timerd.model.storage import Mark, MarkKind


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with Pair(store=MemoryStore()) as pair:
        yield pair


@pytest.mark.parametrize("by", ["a", "b"])
async def test_what_is_said_to_be_cancelled_is_not_delivered_after_that(pair: Pair, by: str) -> None:
    await pair.b_holds()
    await pair.works()
    task = await pair.client.schedule("q", b"x", delay=1)
    await pair.hinted(rows=2)
    await pair.cluster.advance(seconds=0.99)
    named = parse_task_id(task.id)
    assert named is not None
    key = RowKey(named.position_ms, named.digest, 0)
    assert pair.store is not None
    await pair.store.mark([Mark(named.home, key, MarkKind.CANCELLED, b"a call that died")])
    assert (await pair.cluster.client(by).get(task.id)).state is TaskState.CANCELLED
    await pair.cluster.advance(seconds=5)
    assert pair.payloads == []
