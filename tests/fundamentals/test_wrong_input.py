"""Wrong input from the SDK to the engine and back: a sentence, nothing stored, and the next call is served."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask, ItemOutcome, NotFound, PartlyStored, RetryPolicy, TimerdError
from timerd.config import ServerConfig
from timerd.testing import Server
from timerd.worker import Delivery

CENTURY = timedelta(days=101 * 366)
KIB = 1024

# What is wrong: arguments of `schedule`, words of the sentence.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "beyond 100 years": ({"delay": CENTURY}, "100 years"),
    "a negative delay": ({"delay": -1}, "0 or more"),
    "neither at nor delay": ({}, "neither was given"),
    "payload above the cap": ({"delay": 1, "payload": b"x" * (64 * KIB + 1)}, "65,537 bytes: at most 65,536"),
    "queue": ({"delay": 1, "queue": "no spaces"}, "A-Z a-z 0-9 . _ - / :"),
    "key": ({"delay": 1, "key": "k" * 257}, "at most 256"),
    "label": ({"delay": 1, "labels": {"a b": "x"}}, "A-Z a-z 0-9"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_it_is_told_in_a_sentence_and_nothing_is_stored(
    server: Server, client: Client, inbox: Inbox, name: str
) -> None:
    await inbox.works("mails")
    wrong, words = WRONG[name]
    with pytest.raises(InvalidTask) as told:
        await client.schedule(**{"queue": "mails", "payload": b"x", **wrong})
    assert words in str(told.value)
    assert str(told.value).endswith((".", ":"))
    await client.schedule("mails", b"right", delay=1)
    await server.advance(minutes=1)
    assert inbox.payloads == [b"right"]
    assert await ledger(server) == {"inserted": 1, "acked": 1}


async def test_at_and_delay_together(server: Server, client: Client) -> None:
    with pytest.raises(InvalidTask, match="both were given"):
        await client.schedule("mails", b"x", at=server.now, delay=5)


async def test_a_namespace_with_a_space(server: Server) -> None:
    with pytest.raises(TimerdError, match="1 to 64 characters of A-Z a-z 0-9"):
        await server.client(namespace="no spaces").schedule("mails", b"x", delay=1)


async def test_a_payload_above_a_mebibyte_with_the_most_that_can_be_configured() -> None:
    async with Server(config=ServerConfig(listen="127.0.0.1:0", payload_limit_bytes=1 << 20)) as server:
        assert (await server.client().schedule("mails", b"x" * (1 << 20), delay=60)).id
        with pytest.raises(InvalidTask, match="no server takes more than 1,048,576"):
            await server.client().schedule("mails", b"x" * ((1 << 20) + 1), delay=60)


async def test_an_id_of_another_namespace_is_not_found(server: Server, client: Client) -> None:
    task = await client.schedule("mails", b"x", delay=60)
    with pytest.raises(NotFound, match="if it is the key of a task, give it as the key"):
        await client.get("order-4711")
    with pytest.raises(NotFound, match="check the id and the namespace"):
        await server.client(namespace="other").get(task.id)
    assert (await client.get(task.id)).payload == b"x"


@pytest.mark.parametrize("off", [timedelta(seconds=-61), timedelta(seconds=61)])
async def test_a_clock_that_is_a_minute_off_matters_for_delays_only(server: Server, off: timedelta) -> None:
    async with Client(server.address, clock=lambda: server.now + off) as client:
        with pytest.raises(InvalidTask, match="more than 60 s apart") as told:
            await client.schedule("mails", b"x", delay=5)
        assert told.value.reason == "CLOCKS_DIFFER"
        assert (await client.schedule("mails", b"x", at=server.now + timedelta(hours=1))).id


async def test_of_a_batch_the_good_ones_are_stored(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works("mails")
    items: list[Any] = [(b"one", 60), (b"x" * 70_000, 60), (b"three", CENTURY), (b"four", 60)]
    with pytest.raises(PartlyStored) as told:
        await client.schedule_many("mails", items)
    stored, refused = ItemOutcome.STORED, ItemOutcome.NOT_STORED
    assert [task.outcome for task in told.value.tasks] == [stored, refused, refused, stored]
    await server.advance(minutes=2)
    assert sorted(inbox.payloads) == [b"four", b"one"]


async def test_a_handler_that_never_returns_holds_up_no_other(server: Server, client: Client, inbox: Inbox) -> None:
    """Its attempt ends with the attempt timeout, its place is taken by others, its last attempt by the dead letters."""

    async def hangs(delivery: Delivery) -> None:
        if delivery.payload == b"hang":
            await server.sleep(days=365)

    inbox.after = hangs
    await inbox.works("mails", concurrency=4)
    stuck = await client.schedule("mails", b"hang", delay=1, retry=RetryPolicy(max_attempts=2, attempt_timeout=60))
    await client.schedule_many("mails", [(b"%d" % n, 5 + n) for n in range(20)])
    await server.advance(minutes=30)
    assert sorted(p for p in inbox.payloads if p != b"hang") == sorted(b"%d" % n for n in range(20))
    assert inbox.payloads.count(b"hang") == 2
    dead_letters = [letter async for letter in client.dead_letters("mails")]
    assert [letter.task.id for letter in dead_letters] == [stuck.id]
    assert "attempt" in dead_letters[0].last_error
