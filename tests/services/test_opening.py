"""A queue whose worker has just come waits for its backlog, but never for long."""

from __future__ import annotations

import asyncio

import pytest

from timerd.model.partition import Partition
from timerd.services.holding import opening
from timerd.services.holding.opening import Opening

OLD, OLDER = Partition(7, 300_000, 0), Partition(7, 0, 0)


async def test_it_waits_for_all_that_is_being_loaded() -> None:
    woken: list[int] = []
    queues = Opening(woken.append)
    queues.begin(7)
    queues.ready(OLD)
    assert 7 in queues
    queues.expect(7, [OLD, OLDER])
    queues.ready(OLD)
    queues.ready(Partition(8, 0, 0))
    assert 7 in queues
    assert not woken
    queues.ready(OLDER)
    assert 7 not in queues
    assert not queues
    assert woken == [7]


async def test_without_a_backlog_it_does_not_wait() -> None:
    queues = Opening(lambda _: None)
    queues.begin(7)
    queues.expect(7, [])
    assert not queues


async def test_a_store_that_does_not_answer_holds_it_up_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "TIMEOUT_S", 0.001)
    woken = asyncio.Event()
    queues = Opening(lambda _: woken.set())
    queues.begin(7)
    await woken.wait()
    assert 7 not in queues
    queues.expect(7, [OLD])
    assert 7 not in queues
