"""A queue with a breaker whose target is down: few attempts are made, and all of it is done when the target is back."""

from __future__ import annotations

from datetime import timedelta

from tests.fundamentals.conftest import Inbox
from timerd.client import BreakerState, Client, RetryPolicy, WaitReason
from timerd.testing import Server
from timerd.worker import Delivery


async def test_a_target_that_is_down_is_left_in_peace_and_uses_few_attempts_up(
    server: Server, client: Client, inbox: Inbox
) -> None:
    back_at = server.now + timedelta(minutes=10)

    async def target(_: Delivery) -> None:
        if server.now < back_at:
            raise RuntimeError("503")

    inbox.after = target
    await inbox.works("charges", concurrency=20)
    ruled = await client.queues.put("charges", breaker=True)
    assert (ruled.breaker, ruled.limit) == (BreakerState.CLOSED, None)
    retry = RetryPolicy(max_attempts=20, initial_backoff=1, multiplier=1.0, jitter=0)
    due = server.now + timedelta(seconds=1)
    ids = [(await client.schedule("charges", b"%d" % n, at=due, retry=retry)).id for n in range(40)]
    await server.advance(seconds=4)
    assert len(inbox.got) <= 40
    found = await client.queues.get("charges")
    assert found.breaker is BreakerState.OPEN
    assert found.breaker_until is not None
    waiting = [each.waiting_for for each in [await client.get(task) for task in ids]]
    assert {each.reason for each in waiting if each is not None} == {WaitReason.BREAKER}
    assert {each.until for each in waiting if each is not None} == {found.breaker_until}
    before = len(inbox.got)
    await server.advance(seconds=590)
    # 5 s, 10, 20, 40, 80, 160, 300: one is tried after each.
    assert 5 <= len(inbox.got) - before <= 8
    await server.advance(minutes=6)
    assert {each.payload for each in inbox.got if each.at >= back_at} == {b"%d" % n for n in range(40)}
    assert max(inbox.attempts) <= 10
    assert (await client.queues.get("charges")).breaker is BreakerState.CLOSED
