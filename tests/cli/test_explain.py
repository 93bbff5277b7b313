"""`timerd explain` names the cause, of a task in each plight that there is."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.cli.conftest import Ran, Terminal
from timerd.client import RetryPolicy, TaskInfo
from timerd.commands.explain import holders, why
from timerd.testing import Server
from timerd.worker import Delivery, Reject


class Plight:
    """A task of the queue `q`, on a server whose clock is turned."""

    def __init__(self, server: Server) -> None:
        self.server, self.client = server, server.client()

    async def works(self, handler: Callable[[Delivery], Coroutine[Any, Any, None]], concurrency: int = 8) -> None:
        worker = self.server.worker()
        worker.on("q", concurrency=concurrency)(handler)
        await worker.start()

    async def task(self, delay: float = 1, retry: RetryPolicy | None = None) -> TaskInfo:
        """As it is after three seconds."""
        task = await self.client.schedule("q", b"x", delay=delay, retry=retry)
        await self.server.advance(seconds=3)
        return await self.client.get(task.id)

    async def hangs(self, _: Delivery) -> None:
        await self.server.sleep(seconds=60)


async def not_due(plight: Plight) -> TaskInfo:
    return await plight.task(delay=3_600)


async def without_a_worker(plight: Plight) -> TaskInfo:
    return await plight.task()


async def behind_a_busy_worker(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs, concurrency=1)
    await plight.task(delay=0)
    return await plight.task()


async def paused(plight: Plight) -> TaskInfo:
    await plight.client.queues.pause("q")
    return await plight.task()


async def stopped(plight: Plight) -> TaskInfo:
    task = await plight.client.schedule("q", b"x", delay=1)
    await plight.client.queues.stop("q")
    await plight.server.advance(seconds=3)
    return await plight.client.get(task.id)


async def beyond_the_rate(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs)
    await plight.client.queues.put("q", rate="1/m", burst=1)
    await plight.task(delay=0)
    return await plight.task()


async def beyond_what_may_be_in_hand(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs)
    await plight.client.queues.put("q", max_in_hand=1)
    await plight.task(delay=0)
    return await plight.task()


async def beyond_two_limits(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs)
    await plight.client.limits.put("stripe", rate="1/m", burst=1)
    await plight.client.queues.put("q", max_in_hand=1, limits=["stripe"])
    await plight.task(delay=0)
    return await plight.task()


async def beyond_what_a_limit_key_may(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs)
    await plight.client.limits.put("partner", max_in_hand=1, keyed=True)
    await plight.client.queues.put("q", limits=["partner"])
    for delay in (0, 1):
        task = await plight.client.schedule("q", b"x", delay=delay, limit_key="acme")
    await plight.server.advance(seconds=3)
    return await plight.client.get(task.id)


async def expired(plight: Plight) -> TaskInfo:
    task = await plight.client.schedule("q", b"x", delay=1, expire_after=1)
    await plight.server.advance(seconds=3)
    return await plight.client.get(task.id)


async def between_two_attempts(plight: Plight) -> TaskInfo:
    async def fails(_: Delivery) -> None:
        raise RuntimeError("no")

    await plight.works(fails)
    return await plight.task(retry=RetryPolicy(initial_backoff=3_600))


async def in_hand(plight: Plight) -> TaskInfo:
    await plight.works(plight.hangs)
    return await plight.task()


async def dead(plight: Plight) -> TaskInfo:
    async def rejects(_: Delivery) -> None:
        raise Reject("no such order")

    await plight.works(rejects)
    return await plight.task()


async def done_at_the_second_attempt(plight: Plight) -> TaskInfo:
    async def fails_once(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            raise RuntimeError("no such order")

    await plight.works(fails_once)
    task = await plight.task(retry=RetryPolicy(initial_backoff=1))
    await plight.server.advance(seconds=3)
    return await plight.client.get(task.id)


@pytest.mark.parametrize(
    ("plight", "reason", "says"),
    [
        (not_due, "NOT_DUE", "It is due at"),
        (without_a_worker, "WORKER", "No worker of its queue 'q' is connected: start one, as with `timerd work q`."),
        (behind_a_busy_worker, "SLOT", "behind what was due before"),
        (paused, "PAUSED", "timerd queues resume q"),
        (stopped, "PAUSED", "timerd queues resume q"),
        (beyond_the_rate, "LIMIT", "The rate of the queue 'q' allows its next start at 2030-01-01"),
        (beyond_what_may_be_in_hand, "LIMIT", "in hand as its limit allows"),
        (
            beyond_two_limits,
            "LIMIT",
            "all of which have to let it go, longest first. Workers have as many tasks of the queue 'q' in hand as its "
            "limit allows. The rate of the limit 'stripe' allows its next start at 2030-01-01",
        ),
        (beyond_what_a_limit_key_may, "LIMIT", "of the limit key 'acme' of the limit 'partner' in hand as the limit"),
        (expired, "OVER", "It was worth something until 2030-01-01"),
        (between_two_attempts, "RETRY", "Attempt 1 has failed; the next one is at 2030-01-01"),
        (in_hand, "IN_HAND", "A worker has it in hand: attempt 1."),
        (dead, "OVER", "Its last attempt failed: no such order"),
    ],
    ids=lambda each: each.__name__ if callable(each) else "",
)
async def test_the_cause_is_named(
    plight: Callable[[Plight], Coroutine[Any, Any, TaskInfo]], reason: str, says: str
) -> None:
    async with Server() as server:
        told, _, sentence = why(await plight(Plight(server)))
    assert (told, says in sentence) == (reason, True), sentence


async def test_the_limit_and_the_limit_key_are_named_apart() -> None:
    async with Server() as server:
        task = await beyond_what_a_limit_key_may(Plight(server))
    assert holders(task) == {"limit": "partner", "limit_key": "acme", "behind": ""}


async def test_what_was_acked_is_not_said_to_have_failed_last() -> None:
    async with Server() as server:
        task = await done_at_the_second_attempt(Plight(server))
    assert (task.state.name, "no such order" in task.last_error) == ("ACKED", True)
    assert why(task) == ("OVER", None, "It is over, and nothing of it is sent any more.")


def test_the_command_tells_it(terminal: Terminal, whole: Server) -> None:
    terminal("queues", "pause", "mails")
    made = terminal("schedule", "mails", "x", "--at", "2030-01-01T00:00:00Z", "--json").json
    told = terminal("explain", made["task_id"], "--json").json
    assert (told["state"], told["reason"], told["until"]) == ("PENDING", "PAUSED", None)
    assert (told["limit"], told["limit_key"], told["behind"]) == ("", "", "")
    assert "resume mails" in words(terminal("explain", made["task_id"]))
    assert "No task has the key" in terminal("explain", "--key", "order-4711").err
    terminal("queues", "resume", "mails")
    assert "start one, as with `timerd work mails`. Of the queue 1 task waits." in words(
        terminal("explain", made["task_id"])
    )
    terminal("schedule", "mails", "y", "--at", "2030-01-01T00:00:00Z")
    alone = terminal("explain", made["task_id"], "--json").json
    assert (alone["reason"], alone["waiting"]) == ("WORKER", 2)
    neither = terminal("explain")
    assert (neither.code, neither.err) == (2, "timerd: Name what to explain: either an ID, or --key.\n")


def words(ran: Ran) -> str:
    return " ".join(ran.out.split())
