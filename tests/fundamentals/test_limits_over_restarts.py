"""Never are more in hand than a limit allows: over restarts, with what workers bring back, and as workers die."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, WaitReason
from timerd.core.dispatch import RETURN_MS
from timerd.testing import Server
from timerd.worker import Delivery

MOST = 3


class InHand:
    """What handlers have, now and at most. A worker that dies takes its handlers along."""

    def __init__(self, server: Server, random: Random) -> None:
        self._server, self._random = server, random
        self.now = self.most = 0

    async def __call__(self, _: Delivery) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self._server.sleep(seconds=self._random.randint(5, 80))
        finally:
            self.now -= 1


async def limited(client: Client, *, is_shared: bool) -> None:
    """So that both queues have MOST in hand, together or each."""
    if is_shared:
        await client.limits.put("stripe", max_in_hand=MOST)
    for queue in ("charges", "refunds"):
        if is_shared:
            await client.queues.put(queue, limits=["stripe"])
        else:
            await client.queues.put(queue, max_in_hand=MOST)


@pytest.mark.parametrize("is_shared", [True, False])
async def test_what_workers_bring_from_before_a_restart_counts(
    server: Server, client: Client, inbox: Inbox, is_shared: bool
) -> None:
    async def works(_: Delivery) -> None:
        await server.sleep(seconds=120)

    inbox.after = works
    await inbox.works("charges", "other", concurrency=32)
    await limited(client, is_shared=is_shared)
    for n in range(2 * MOST):
        await client.schedule("charges", b"%d" % n, at=server.now + timedelta(seconds=1))
    await client.schedule("other", b"", delay=1)
    await server.advance(seconds=20)
    assert len(inbox.got) == MOST + 1
    await server.restart()
    await server.advance(seconds=90)
    assert len(inbox.got) == MOST + 1
    # Their ends let the others go, though this server did not send them.
    await server.advance(seconds=15)
    assert len(inbox.got) == 2 * MOST + 1
    await server.advance(minutes=5)
    assert inbox.attempts == [1] * (2 * MOST + 1)


async def test_after_a_start_a_limited_queue_waits_for_workers_to_come_back(
    server: Server, client: Client, inbox: Inbox
) -> None:
    await client.queues.put("charges", max_in_hand=MOST)
    await server.restart()
    task = await client.schedule("charges", b"", delay=0)
    await client.schedule("free", b"", delay=0)
    begun = server.now
    await inbox.works("charges", "free")
    await server.settle()
    assert [each.delivery.queue for each in inbox.got] == ["free"]
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until) == (WaitReason.LIMIT, begun + timedelta(milliseconds=RETURN_MS))
    await server.advance(seconds=10)
    assert inbox.times[1:] == [begun + timedelta(milliseconds=RETURN_MS)]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_there_is_never_one_more(
    server: Server, client: Client, inbox: Inbox, seed: int
) -> None:
    random = Random(seed)
    in_hand = InHand(server, random)
    inbox.after = in_hand
    workers = [await inbox.works("charges", "refunds", concurrency=8) for _ in range(2)]
    await limited(client, is_shared=True)
    scheduled: set[bytes] = set()
    for step in range(14):
        for n in range(random.randint(0, 3)):
            scheduled.add(payload := b"%d-%d" % (step, n))
            await client.schedule(random.choice(["charges", "refunds"]), payload, delay=random.randint(0, 20))
        match random.randint(0, 3):
            case 0:
                await server.restart()
            case 1:
                await workers.pop(random.randrange(2)).kill()
                workers.append(await inbox.works("charges", "refunds", concurrency=8))
        await server.advance(seconds=random.randint(1, 40))
        assert in_hand.most <= MOST
    await server.advance(minutes=60)
    assert (in_hand.most, {*inbox.payloads}) == (MOST, scheduled)
