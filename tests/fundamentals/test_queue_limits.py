"""Limits of a queue: how many start in a time, and how many are with workers at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import (
    Client,
    InvalidTask,
    QueueLimit,
    QueueMode,
    RetryPolicy,
    WaitReason,
)
from timerd.testing import Server
from timerd.worker import Delivery


def gaps_ms(times: Sequence[datetime]) -> list[int]:
    return [round((b - a).total_seconds() * 1_000) for a, b in pairwise(times)]


async def schedule(client: Client, count: int, at: datetime, queue: str = "charges") -> list[str]:
    return [(await client.schedule(queue, b"%d" % n, at=at)).id for n in range(count)]


async def test_a_burst_goes_at_once_and_the_rest_at_the_rate(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges", "free")
    ruled = await client.queues.put("charges", rate="10/s", burst=5)
    assert (ruled.mode, ruled.limit) == (QueueMode.RUNNING, QueueLimit(None, 10, timedelta(seconds=1), 5))
    due = server.now + timedelta(seconds=2)
    await schedule(client, 40, due)
    await schedule(client, 40, due, "free")
    await server.advance(seconds=10)
    times = [each.at for each in inbox.got if each.delivery.queue == "charges"]
    assert len(times) == 40
    assert times[:5] == [due] * 5
    assert gaps_ms(times[4:]) == [100] * 35
    # A queue without rules waits for nobody.
    assert {each.at for each in inbox.got if each.delivery.queue == "free"} == {due}


async def test_who_sent_nothing_for_a_while_has_the_burst_again(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges")
    await client.queues.put("charges", rate="10/s", burst=5)
    for seconds in (1, 20):
        await schedule(client, 5, server.now + timedelta(seconds=seconds))
    await server.advance(seconds=30)
    assert gaps_ms(inbox.times) == [0] * 4 + [19_000] + [0] * 4


async def test_retries_count_and_what_was_cancelled_does_not(server: Server, client: Client, inbox: Inbox) -> None:
    async def fails_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise RuntimeError("no")

    inbox.after = fails_once
    await inbox.works("charges")
    await client.queues.put("charges", rate="1/s", burst=1)
    due = server.now + timedelta(seconds=1)
    retry = RetryPolicy(initial_backoff=0.1, jitter=0)
    ids = [(await client.schedule("charges", b"%d" % n, at=due, retry=retry)).id for n in range(6)]
    for task in ids[3:]:
        await client.cancel(task)
    await server.advance(seconds=30)
    assert len(inbox.got) == 6
    assert set(gaps_ms(inbox.times)) == {1_000}


async def test_no_more_are_in_hand_than_allowed_and_another_goes_when_one_has_ended(
    server: Server, client: Client, inbox: Inbox
) -> None:
    in_hand: list[int] = [0]
    most: list[int] = []

    async def works(_: Delivery) -> None:
        in_hand[0] += 1
        most.append(in_hand[0])
        await server.sleep(seconds=10)
        in_hand[0] -= 1

    inbox.after = works
    await inbox.works("charges", concurrency=32)
    await client.queues.put("charges", max_in_hand=3)
    start = server.now
    await schedule(client, 12, start + timedelta(seconds=1))
    await server.advance(seconds=16)
    assert (len(inbox.got), max(most)) == (6, 3)
    # A higher one counts at once, a lower one as deliveries end.
    await client.queues.put("charges", max_in_hand=5)
    await server.settle()
    assert (len(inbox.got), max(most)) == (8, 5)
    await client.queues.put("charges", max_in_hand=1)
    most.clear()
    await server.advance(minutes=2)
    assert (len(inbox.got), max(most)) == (12, 1)
    assert (await client.queues.get("charges")).revision == 3


async def test_a_restart_gives_no_second_burst(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges")
    await client.queues.put("charges", rate="10/s", burst=50)
    await schedule(client, 120, server.now + timedelta(seconds=1))
    await server.advance(seconds=2)
    assert len(inbox.got) == 60
    await server.restart()
    await server.advance(seconds=2)
    assert 60 < len(inbox.got) <= 80
    await server.advance(seconds=60)
    assert len({each.payload for each in inbox.got}) == 120


async def test_without_its_limit_all_of_it_goes(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges")
    await client.queues.put("charges", rate="1/m")
    await schedule(client, 10, server.now)
    await server.advance(seconds=5)
    assert len(inbox.got) == 1
    assert (await client.queues.put("charges")).limit is None
    await server.settle()
    assert len(inbox.got) == 10


async def test_a_limit_and_a_mode_know_of_each_other(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("charges")
    await client.queues.put("charges", rate="10/s", burst=2)
    paused = await client.queues.pause("charges")
    assert paused.limit is not None
    ids = await schedule(client, 4, server.now + timedelta(seconds=1))
    await server.advance(seconds=30)
    reasons = [(await client.get(task)).waiting_for for task in ids]
    assert {each.reason for each in reasons if each is not None} == {WaitReason.PAUSED}
    await client.queues.resume("charges")
    await server.settle()
    assert len(inbox.got) == 2
    waiting = (await client.get(ids[3])).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until) == (WaitReason.LIMIT, server.now + timedelta(milliseconds=100))
    await server.advance(seconds=1)
    assert gaps_ms(inbox.times) == [0, 100, 100]


async def test_what_waits_for_others_in_hand_says_so(server: Server, client: Client, inbox: Inbox) -> None:
    async def works(_: Delivery) -> None:
        await server.sleep(seconds=60)

    inbox.after = works
    await inbox.works("charges")
    await client.queues.put("charges", max_in_hand=1)
    await schedule(client, 1, server.now)
    await server.advance(seconds=1)
    task = await client.schedule("charges", b"next", delay=1)
    await server.advance(seconds=5)
    waiting = (await client.get(task.id)).waiting_for
    assert waiting is not None
    assert (waiting.reason, waiting.until) == (WaitReason.LIMIT, None)


async def test_the_repeat_of_a_limit_changes_nothing(server: Server, client: Client) -> None:
    first = await client.queues.put("charges", rate="10/s", request_id="one")
    await client.queues.put("charges", rate="20/s")
    assert await client.queues.put("charges", rate="10/s", request_id="one") == first
    kept = await client.queues.get("charges")
    assert (kept.revision, kept.limit) == (2, QueueLimit(None, 20, timedelta(seconds=1), 2))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"rate": "fast"}, "`rate` is 'fast': write one or more tasks in a time, as 100/s"),
        ({"rate": "0/s"}, "`rate` is '0/s'"),
        ({"rate": "1/2d"}, "The period is 172,800,000 ms: give a second to a day"),
        ({"burst": 5}, "The limit limits nothing"),
        ({"burst": 5, "max_in_hand": 3}, "burst and period belong to a rate"),
        ({"rate": "5000/s", "burst": 2}, "With a burst of 2 a rate of 5,000 in 1,000 ms would not be reached: give 50"),
        ({"rate": "9999999/s"}, "rate is 9,999,999: at most 1,000,000 are allowed"),
        ({"max_in_hand": 0}, "`max_in_hand`"),
    ],
)
async def test_a_limit_that_is_none_is_refused(
    server: Server, client: Client, fields: dict[str, str | int], sentence: str
) -> None:
    with pytest.raises(InvalidTask) as refused:
        await client.queues.put("charges", **fields)  # type: ignore[arg-type]
    assert sentence in str(refused.value)
    assert (await client.queues.get("charges")).revision == 0
