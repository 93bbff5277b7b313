"""Handlers that say no progress for too long, though their worker lives: `stall_timeout`."""

from __future__ import annotations

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import AttemptEnd, Client, InvalidTask, Progress, RetryPolicy
from timerd.testing import Server
from timerd.worker import Delivery

ONCE = RetryPolicy(max_attempts=1)


async def test_one_that_says_nothing_is_a_dead_letter_that_says_so(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Its worker extends its lease all the while."""

    async def hangs(_: Delivery) -> None:
        await server.sleep(hours=1)

    inbox.after = hangs
    await inbox.works("exports")
    task = await client.schedule("exports", b"x", delay=60, retry=ONCE, stall_timeout=90)
    await server.advance(seconds=60 + 90)
    assert (await client.get(task.id)).history == ()
    await server.advance(seconds=5)
    [letter] = [each async for each in client.dead_letters()]
    assert letter.last_error == "stalled: its handler said no progress for its stall_timeout"
    assert [each.end for each in letter.task.history] == [AttemptEnd.STALLED]


async def test_one_that_says_something_now_and_then_may_take_long(server: Server, client: Client, inbox: Inbox) -> None:
    async def exports(delivery: Delivery) -> None:
        for page in range(20):
            await server.sleep(seconds=60)
            await delivery.progress(page / 20)

    inbox.after = exports
    await inbox.works("exports")
    task = await client.schedule("exports", b"x", delay=60, retry=ONCE, stall_timeout=90)
    await server.advance(minutes=22)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).history == ()


async def test_who_receives_without_a_worker_says_it_with_the_lease(server: Server, client: Client) -> None:
    task = await client.schedule("exports", b"x", delay=1, retry=ONCE, stall_timeout=10)
    await server.advance(seconds=2)
    [received] = await client.receive("exports", wait=0)
    assert received.stall_timeout is not None
    assert received.stall_timeout.total_seconds() == 10
    await server.advance(seconds=9)
    assert await client.extend(received, progress=Progress(0.5)) == set()
    await server.advance(seconds=9)
    assert await client.extend(received) == set()
    await server.advance(seconds=4)
    assert [each.end for each in (await client.get(task.id)).history] == [AttemptEnd.STALLED]


@pytest.mark.parametrize(
    ("stall_s", "sentence"),
    [(0.5, "is 0.5 s: give a second to 7 days"), (3600, r"is not shorter than attempt_timeout \(3,600 s\)")],
)
async def test_what_could_never_stall_or_always_would_is_refused(client: Client, stall_s: float, sentence: str) -> None:
    with pytest.raises(InvalidTask, match=sentence):
        await client.schedule("exports", b"x", delay=1, stall_timeout=stall_s)
