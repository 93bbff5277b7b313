"""How far an attempt has come: said by its handler, kept where it fails, and seen by the next one."""

from __future__ import annotations

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.client import Client, InvalidTask, Progress, TaskState
from timerd.testing import Server
from timerd.worker import Delivery, Retry


def fails_after(*words: tuple[float, bytes] | None) -> tuple[list[Progress | None], object]:
    """What each attempt was told, and a handler of which each attempt but the last says a word and fails. None: it says
    nothing."""
    told: list[Progress | None] = []

    async def handle(delivery: Delivery) -> None:
        told.append(delivery.previous_progress)
        if delivery.attempt > len(words):
            return
        if (said := words[delivery.attempt - 1]) is not None:
            await delivery.progress(*said)
        raise Retry(60)

    return told, handle


async def test_the_next_attempt_goes_on_from_there(server: Server, client: Client, inbox: Inbox) -> None:
    told, inbox.after = fails_after((0.4, b"page 17"))  # type: ignore[assignment]
    await inbox.works("exports")
    task = await client.schedule("exports", b"x", delay=60)
    await server.advance(seconds=90)
    shown = await client.get(task.id)
    assert (shown.state, shown.progress) == (TaskState.RETRYING, Progress(0.4, b"page 17"))
    await server.advance(seconds=60)
    assert told == [None, Progress(0.4, "page 17")]
    assert (await client.get(task.id)).state is TaskState.ACKED


async def test_one_that_says_nothing_hands_on_what_it_was_told(server: Server, client: Client, inbox: Inbox) -> None:
    told, inbox.after = fails_after((0.4, b"page 17"), None)  # type: ignore[assignment]
    await inbox.works("exports")
    await client.schedule("exports", b"x", delay=60)
    await server.advance(seconds=300)
    assert told == [None, Progress(0.4, b"page 17"), Progress(0.4, b"page 17")]


async def test_it_outlives_a_restart(server: Server, client: Client, inbox: Inbox) -> None:
    told, inbox.after = fails_after((0.4, b"page 17"))  # type: ignore[assignment]
    await inbox.works("exports")
    await client.schedule("exports", b"x", delay=60)
    await server.advance(seconds=90)
    await server.restart()
    await server.advance(seconds=120)
    assert told == [None, Progress(0.4, b"page 17")]


async def test_what_a_worker_has_said_before_it_died_is_not_lost(server: Server, client: Client, inbox: Inbox) -> None:
    """With its last sign of life."""

    async def says(delivery: Delivery) -> None:
        if delivery.attempt == 1:
            await delivery.progress(0.1, b"page 3")
            await delivery.progress(0.4, b"page 17")
            await server.sleep(hours=1)

    inbox.after = says
    worker = await inbox.works("exports")
    task = await client.schedule("exports", b"x", delay=60)
    await server.advance(seconds=61)
    await worker.sync()
    worker.extend()
    await worker.sync()
    shown = await client.get(task.id)
    assert (shown.state, shown.progress) == (TaskState.IN_FLIGHT, Progress(0.4, b"page 17"))
    await worker.kill()
    await inbox.works("exports")
    await server.advance(minutes=2)
    assert [each.delivery.previous_progress for each in inbox.got] == [None, Progress(0.4, b"page 17")]


async def test_who_receives_says_it_with_the_lease(server: Server, client: Client) -> None:
    await client.schedule("exports", b"x", delay=1)
    await server.advance(seconds=2)
    first = await client.receive("exports", wait=0)
    assert await client.extend(first, progress=Progress(0.5, b"half")) == set()
    assert await client.finish(first, "nack", delay=0, error="no") == {}
    await server.advance(seconds=1)
    [again] = await client.receive("exports", wait=0)
    assert (again.attempt, again.previous_progress) == (2, Progress(0.5, b"half"))


@pytest.mark.parametrize("said", [(1.1, b""), (-0.1, b""), (True, b""), ("half", b""), (0.5, b"x" * 1025), (0.5, 17)])
def test_what_is_no_progress_is_refused(said: tuple[float, bytes]) -> None:
    with pytest.raises(InvalidTask, match=r"from 0 to 1|1,024 bytes"):
        Progress(*said)
