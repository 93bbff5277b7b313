"""Limits with names: what the queues that list one start in a time, and have with workers, together."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, FailedPrecondition, InvalidTask, NotFound, QueueLimit, WaitReason
from timerd.testing import Server
from timerd.worker import Delivery

SECOND = timedelta(seconds=1)


async def schedule(client: Client, count: int, at: datetime, *queues: str) -> list[str]:
    return [(await client.schedule(queue, b"%d" % n, at=at)).id for n in range(count) for queue in queues]


async def test_queues_share_a_rate_and_both_get_their_part(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges", "refunds", "free")
    put = await client.limits.put("stripe", rate="10/s", burst=4)
    assert (put.name, put.limit, put.queues) == ("stripe", QueueLimit(None, 10, SECOND, 4), ())
    for queue in ("charges", "refunds"):
        assert (await client.queues.put(queue, limits=["stripe"])).limits == ("stripe",)
    assert (await client.limits.get("stripe")).queues == ("charges", "refunds")
    due = server.now + timedelta(seconds=2)
    await schedule(client, 30, due, "charges", "refunds", "free")
    await server.advance(seconds=4)
    assert (await client.limits.get("stripe")).next_time == server.now + timedelta(milliseconds=100)
    limited = [each for each in inbox.got if each.delivery.queue != "free"]
    # A burst of 4, and in two seconds 10 each.
    assert len(limited) == 4 + 20
    assert min(Counter(each.delivery.queue for each in limited).values()) >= 10
    assert {each.at for each in inbox.got if each.delivery.queue == "free"} == {due}
    await server.advance(seconds=10)
    assert len(inbox.got) == 90


async def test_queues_share_what_is_in_hand(server: Server, client: Client, inbox: Inbox) -> None:
    in_hand, most = Counter[str](), [0]

    async def works(delivery: Delivery) -> None:
        in_hand[delivery.queue] += 1
        most[0] = max(most[0], in_hand.total())
        await server.sleep(seconds=10)
        in_hand[delivery.queue] -= 1

    inbox.after = works
    await inbox.works("charges", "refunds", concurrency=32)
    await client.limits.put("stripe", max_in_hand=3)
    await client.queues.put("charges", limits=["stripe"])
    await client.queues.put("refunds", limits=["stripe"], max_in_hand=1)
    await schedule(client, 6, server.now + SECOND, "charges", "refunds")
    await server.advance(seconds=5)
    assert (most[0], in_hand.total(), (await client.limits.get("stripe")).in_hand) == (3, 3, 3)
    assert in_hand["refunds"] <= 1
    # A higher one counts at once, and a lower one as deliveries end.
    await client.limits.put("stripe", max_in_hand=5)
    await server.settle()
    assert in_hand.total() == 5
    await client.limits.put("stripe", max_in_hand=2)
    await server.advance(seconds=10)
    most[0] = 0
    await server.advance(minutes=2)
    assert (len(inbox.got), most[0]) == (12, 2)


async def test_a_task_that_waits_says_for_which_limit(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges", "refunds")
    await client.limits.put("stripe", rate="1/s", burst=1)
    for queue in ("charges", "refunds"):
        await client.queues.put(queue, limits=["stripe"])
    await schedule(client, 1, server.now, "charges")
    await server.settle()
    task = await client.schedule("refunds", b"", at=server.now)
    await server.settle()
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.limit, waiting.until) == (WaitReason.LIMIT, "stripe", server.now + SECOND)
    assert "The rate of the limit 'stripe' allows its next start at" in waiting.description


async def test_a_queue_lists_what_is_there_and_what_is_listed_stays(server: Server, client: Client) -> None:
    with pytest.raises(FailedPrecondition, match="There is no limit 'stripe'") as unknown:
        await client.queues.put("charges", limits=["stripe"])
    assert (unknown.value.reason, (await client.queues.get("charges")).revision) == ("LIMIT_UNKNOWN", 0)
    await client.limits.put("stripe", max_in_hand=1)
    await client.queues.put("charges", limits=["stripe"])
    with pytest.raises(FailedPrecondition, match="is listed by 'charges': nothing was deleted") as listed:
        await client.limits.delete("stripe")
    assert listed.value.reason == "LIMIT_LISTED"
    await client.queues.put("charges")
    await client.limits.delete("stripe")
    for gone in (client.limits.get("stripe"), client.limits.delete("stripe")):
        with pytest.raises(NotFound, match="There is no limit 'stripe' in the namespace 'default'"):
            await gone
    assert [each async for each in client.limits.list()] == []


async def test_limits_are_of_a_namespace_and_stand_over_a_restart(server: Server, inbox: Inbox) -> None:
    shop, bank = server.client(namespace="shop"), server.client(namespace="bank")
    for name in ("stripe", "mails", "bank"):
        await shop.limits.put(name, rate="10/s", burst=50)
    await bank.limits.put("stripe", max_in_hand=7)
    await shop.limits.delete("mails")
    await server.restart()
    assert [each.name async for each in shop.limits.list()] == ["bank", "stripe"]
    assert [(each.name, each.limit.max_in_hand) async for each in bank.limits.list()] == [("stripe", 7)]


async def test_a_restart_gives_no_second_burst(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges", "refunds")
    await client.limits.put("stripe", rate="10/s", burst=40)
    for queue in ("charges", "refunds"):
        await client.queues.put(queue, limits=["stripe"])
    await schedule(client, 60, server.now + SECOND, "charges", "refunds")
    await server.advance(seconds=2)
    assert len(inbox.got) == 50
    await server.restart()
    await server.advance(seconds=2)
    assert 50 < len(inbox.got) <= 70


async def test_the_repeat_of_a_change_changes_nothing(server: Server, client: Client) -> None:
    first = await client.limits.put("stripe", rate="10/s", request_id="one")
    await client.limits.put("stripe", rate="20/s")
    assert await client.limits.put("stripe", rate="10/s", request_id="one") == first
    kept = await client.limits.get("stripe")
    assert (kept.revision, kept.limit.rate) == (2, 20)
    await client.limits.delete("stripe", request_id="two")
    await client.limits.put("stripe", rate="30/s")
    await client.limits.delete("stripe", request_id="two")
    assert (await client.limits.get("stripe")).limit.rate == 30


async def test_limits_that_cannot_be_are_refused(server: Server, client: Client) -> None:
    await client.limits.put("stripe", max_in_hand=1)
    wrong = [
        (client.limits.put("stripe"), "The limit limits nothing"),
        (client.limits.put("two words", max_in_hand=1), "The name 'two words' of a limit is not allowed"),
        (client.limits.get(""), "`limit` is empty"),
        (client.queues.put("charges", limits="stripe"), "`limits` is 'stripe': give a list of names"),
        (client.queues.put("charges", limits=[f"limit{n}" for n in range(9)]), "lists 9 limits: at most 8"),
    ]
    for call, sentence in wrong:
        with pytest.raises(InvalidTask) as refused:
            await call
        assert sentence in str(refused.value)
    assert (await client.limits.get("stripe")).revision == 1
    assert (await client.queues.get("charges")).revision == 0
