"""A queue that finds out how many tasks its target bears at a time."""

from __future__ import annotations

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Adaptive, Client, FailedPrecondition, InvalidTask, Item, WaitReason
from timerd.model import codec
from timerd.model.errors import Invalid
from timerd.services.regulation.limit_wire import adaptive_of
from timerd.testing import Cluster, Server
from timerd.v1 import regulation_service_pb2 as pb
from timerd.worker import Delivery, Throttled


async def test_more_go_at_a_time_until_the_target_says_that_it_is_too_much(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """It bears six."""
    in_hand, most = 0, 0

    async def target(_: Delivery) -> None:
        nonlocal in_hand, most
        in_hand += 1
        most = max(most, in_hand)
        try:
            if in_hand > 6:
                raise Throttled(1)
            await server.sleep(seconds=1)
        finally:
            in_hand -= 1

    inbox.after = target
    await inbox.works("exports", concurrency=50)
    ruled = await client.queues.put("exports", adaptive=Adaptive(2, 50))
    assert ruled.adaptive == Adaptive(2, 50, None, 2)
    tasks = await client.schedule_many("exports", [Item(b"%d" % n, delay=1) for n in range(150)])
    await server.advance(seconds=1)
    assert (in_hand, most) == (2, 2)
    waits = (await client.get(tasks[-1].id)).waiting_for
    assert waits is not None
    assert (waits.reason, waits.until, waits.limit) == (WaitReason.LIMIT, None, "")
    assert "its adaptive limit allows now" in waits.description
    await server.advance(minutes=2)
    assert most == 7
    found = (await client.queues.get("exports")).adaptive
    assert found is not None
    assert found.limit is not None
    assert 2 <= found.limit <= 7
    assert len({each.payload for each in inbox.got}) == 150


async def test_it_is_changed_and_taken_away(client: Client) -> None:
    await client.queues.put("exports", adaptive=Adaptive(2, 50, target=30), max_in_hand=20)
    changed = await client.queues.update("exports", adaptive=Adaptive(5, 60))
    assert (changed.adaptive, changed.limit is not None) == (Adaptive(5, 60, None, 5), True)
    kept = await client.queues.update("exports", max_in_hand=10)
    assert kept.adaptive == changed.adaptive
    cleared = await client.queues.update("exports", clear=["adaptive"])
    assert (cleared.adaptive, cleared.limit is not None) == (None, True)


@pytest.mark.parametrize("wrong", [Adaptive(0, 5), Adaptive(6, 5), Adaptive(1, 2_000_000), Adaptive(1, 5, target=0)])
async def test_what_is_no_limit_is_refused(client: Client, wrong: Adaptive) -> None:
    with pytest.raises(InvalidTask):
        await client.queues.put("exports", adaptive=wrong)
    assert (await client.queues.get("exports")).revision == 0


def test_the_server_refuses_what_the_client_would_not_send() -> None:
    with pytest.raises(Invalid, match="The adaptive limit goes from 6 to 5: give a floor of at least 1"):
        adaptive_of(pb.Adaptive(floor=6, ceiling=5))
    endless = pb.Adaptive(floor=1, ceiling=5)
    endless.target.FromSeconds(86_401)
    with pytest.raises(Invalid, match="The target is 86,401,000 ms: give a millisecond to a day"):
        adaptive_of(endless)


async def test_while_an_instance_does_not_know_it_no_queue_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.ADAPTS})
            await cluster.add("b")
        await cluster.advance(seconds=5)
        with pytest.raises(FailedPrecondition, match="Not every instance knows adaptive limits: b is of an older"):
            await cluster.client("a").queues.put("exports", adaptive=Adaptive(2, 50))
        await cluster.client("a").queues.put("exports", breaker=True)
