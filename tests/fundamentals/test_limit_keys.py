"""Tasks of many customers in one queue: they take turns, and each is limited, through failures and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import (
    Client,
    InvalidTask,
    Item,
    KeyLimit,
    KeyRules,
    RetryPolicy,
    TaskOptions,
    TaskState,
    WaitReason,
)
from timerd.testing import Server
from timerd.worker import Delivery


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


@dataclass
class Office:
    """A handler that works for a while, and counts what of each customer is in hand."""

    server: Server
    seconds: float = 1.0
    most: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)
    fails: set[bytes] = field(default_factory=set)
    # Every second one of a customer takes so many times as long.
    uneven: int = 1

    async def __call__(self, delivery: Delivery) -> None:
        customer = delivery.payload.decode().split()[0]
        self.open[customer] += 1
        self.most[customer] = max(self.most[customer], self.open[customer])
        try:
            is_odd = int(delivery.payload.split()[1]) % 2
            await self.server.sleep(seconds=self.seconds * (self.uneven if is_odd else 1))
            if delivery.payload in self.fails:
                self.fails.discard(delivery.payload)
                raise RuntimeError("not yet")
        finally:
            self.open[customer] -= 1


async def schedule(
    client: Client,
    customer: str,
    count: int,
    at: datetime,
    retry: RetryPolicy | None = None,
    expire_after: float | None = None,
) -> list[str]:
    items = [Item(f"{customer} {n}".encode(), at=at) for n in range(count)]
    same = TaskOptions(limit_key=customer, retry=retry, expire_after=expire_after)
    return [each.id for each in await client.schedule_many("mail", items, options=same)]


async def test_others_come_in_turn_with_a_customer_who_has_much(server: Server, client: Client, inbox: Inbox) -> None:
    """Hundreds of one that were due before, and one of each of ten others: these are among the first."""
    await client.queues.put("mail", keys=KeyRules(share=1))
    at = server.now + timedelta(minutes=1)
    await schedule(client, "noisy", 300, at)
    for n in range(10):
        await schedule(client, f"quiet{n}", 1, at + timedelta(seconds=30))
    await server.advance(minutes=2)
    inbox.after = Office(server)
    await inbox.works("mail")
    await server.advance(minutes=1)
    assert len(inbox.got) == 310
    assert {each for each in inbox.payloads[:32] if not each.startswith(b"noisy")} == {
        b"quiet%d 0" % n for n in range(10)
    }
    await ledger(server)


WEIGHTS = {"gold": 3.0, "silver": 1.0, "bronze": 0.5}


async def test_shares_are_those_of_the_weights(server: Server, client: Client, inbox: Inbox) -> None:
    """Of what starts while all three have something due, within a twentieth."""
    ruled = await client.queues.put("mail", keys=KeyRules(share=1, weights=WEIGHTS))
    assert ruled.keys is not None
    assert ruled.keys.weights == {"gold": 3.0, "bronze": 0.5}
    inbox.after = Office(server, seconds=0.1)
    for customer in WEIGHTS:
        await schedule(client, customer, 1_000, server.now + timedelta(seconds=1))
    await inbox.works("mail", concurrency=10)
    await server.advance(seconds=1 + 1_350 * 0.1 / 10)
    started = Counter(payload.split()[0].decode() for payload in inbox.payloads)
    assert started.total() > 1_300
    for customer, weight in WEIGHTS.items():
        assert started[customer] == pytest.approx(started.total() * weight / 4.5, rel=0.05)


async def test_who_comes_later_does_not_wait_for_what_was_due_before(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Ten customers with a task each ten seconds, beside one with enough for an hour: theirs start within a second."""
    await client.queues.put("mail", keys=KeyRules(share=1))
    inbox.after = Office(server)
    await inbox.works("mail", concurrency=2)
    begin = server.now + timedelta(seconds=1)
    await schedule(client, "noisy", 500, begin)
    dues = {}
    for n in range(10):
        for m in range(3):
            dues[f"quiet{n} {m}".encode()] = due = begin + timedelta(seconds=20 + 10 * m)
            await client.schedule("mail", b"quiet%d %d" % (n, m), at=due, limit_key=f"quiet{n}")
    await server.advance(seconds=90)
    waits = [each.at - dues[each.payload] for each in inbox.got if each.payload in dues]
    assert len(waits) == 30
    # Ten come at once, and two go at a time: beside one of the noisy one for each turn of all.
    assert max(waits) <= timedelta(seconds=7)


async def test_a_key_has_no_more_in_hand_than_its_limit(server: Server, client: Client, inbox: Inbox) -> None:
    """Two of each, three of one that has an override, any number of another; the others go on meanwhile."""
    own = {"big": KeyLimit(max_in_hand=3), "free": KeyLimit()}
    rules = KeyRules(KeyLimit(max_in_hand=2), own, share=1)
    ruled = await client.queues.put("mail", keys=rules)
    assert ruled.keys is not None
    assert ruled.keys.limit is not None
    assert ruled.keys.limit.max_in_hand == 2
    assert ruled.keys.overrides["free"] is None
    office = inbox.after = Office(server, uneven=3)
    await inbox.works("mail", concurrency=30)
    at = server.now + timedelta(seconds=5)
    for customer in ("a", "b", "big", "free"):
        await schedule(client, customer, 10, at)
    await server.advance(seconds=60)
    assert len(inbox.got) == 40
    assert office.most == {"a": 2, "b": 2, "big": 3, "free": 10}
    await ledger(server)


async def test_a_limit_of_keys_is_changed_while_they_wait(server: Server, client: Client, inbox: Inbox) -> None:
    """One at a time, then four; then any number."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=1), share=1))
    office = inbox.after = Office(server, seconds=10)
    await inbox.works("mail", concurrency=30)
    await schedule(client, "a", 20, server.now + timedelta(seconds=1))
    await server.advance(seconds=5)
    assert len(inbox.got) == 1
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=4), share=1))
    await server.advance(seconds=1)
    assert len(inbox.got) == 4
    await client.queues.put("mail", keys=KeyRules(share=1))
    await server.advance(seconds=1)
    assert len(inbox.got) == 20
    assert office.most["a"] == 20


async def test_a_key_starts_at_its_rate(server: Server, client: Client, inbox: Inbox) -> None:
    """Each has its own: two keys have twice as much."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(rate="10/s", burst=5), share=1))
    await inbox.works("mail", concurrency=30)
    at = server.now + timedelta(seconds=5)
    for customer in ("a", "b"):
        await schedule(client, customer, 30, at)
    await server.advance(seconds=20)
    for key in (b"a", b"b"):
        times = [each.at for each in inbox.got if each.payload.startswith(key)]
        assert len(times) == 30
        assert times[:5] == [at] * 5
        assert [b - a for a, b in pairwise(times[4:])] == [timedelta(milliseconds=100)] * 25


async def test_a_customer_whose_handlers_hang_stops_nobody(server: Server, client: Client, inbox: Inbox) -> None:
    """It has as many in hand as a key may; all of the others go on beside them."""
    at = server.now + timedelta(seconds=5)

    async def hangs(delivery: Delivery) -> None:
        if delivery.payload.startswith(b"hung"):
            await server.sleep(minutes=10)

    inbox.after = hangs
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=4)))
    await inbox.works("mail", concurrency=16)
    await schedule(client, "hung", 100, at)
    for n in range(50):
        await schedule(client, f"c{n}", 1, at + timedelta(seconds=n))
    await server.advance(minutes=2)
    times = {each.payload: each.at for each in inbox.got}
    assert [times.pop(b"hung %d" % n) for n in range(4)] == [at] * 4
    assert times == {b"c%d 0" % n: at + timedelta(seconds=n) for n in range(50)}


async def test_a_key_has_half_of_what_workers_ask_for(server: Server, client: Client, inbox: Inbox) -> None:
    """Where nobody says more; tasks without a key have all of it."""
    office = inbox.after = Office(server, seconds=10)
    await inbox.works("mail", concurrency=16)
    at = server.now + timedelta(seconds=5)
    await schedule(client, "a", 32, at)
    await server.advance(seconds=60)
    assert len(inbox.got) == 32
    assert office.most == {"a": 8}
    await client.schedule_many("mail", [Item(b"free %d" % n, delay=5) for n in range(32)])
    await server.advance(seconds=60)
    assert office.most["free"] == 16


async def test_a_share_of_one_tenth_is_one_at_least(server: Server, client: Client, inbox: Inbox) -> None:
    """Of a queue that has a limit it is a part of that, whatever workers ask for."""
    await client.queues.put("mail", max_in_hand=20, keys=KeyRules(share=0.1))
    await client.queues.put("post", max_in_hand=3, keys=KeyRules(share=0.1))
    office = inbox.after = Office(server, seconds=10)
    await inbox.works("mail", "post", concurrency=100)
    items = [Item(b"a %d" % n, delay=5) for n in range(6)]
    await client.schedule_many("mail", items, limit_key="a")
    await server.advance(seconds=60)
    assert office.most == {"a": 2}
    await client.schedule_many("post", [Item(b"p %d" % n, delay=5) for n in range(3)], limit_key="p")
    await server.advance(seconds=60)
    assert office.most == {"a": 2, "p": 1}
    assert len(inbox.got) == 9


async def test_a_task_says_that_its_key_holds_it(server: Server, client: Client, inbox: Inbox) -> None:
    """By its limit, by its rate, by its share; and another key waits for a slot only."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=1), {"slow": KeyLimit(rate="1/m")}, share=1))
    inbox.after = Office(server, seconds=60)
    await inbox.works("mail", concurrency=4)
    at = server.now + timedelta(seconds=1)
    ids = {customer: await schedule(client, customer, 3, at) for customer in ("a", "slow")}
    await server.advance(seconds=2)
    waiting = [task.waiting_for for each in ids["a"] if (task := await client.get(each)).waiting_for is not None]
    assert len(waiting) == 2
    assert {(each.reason, each.limit, each.limit_key, each.until) for each in waiting} == {
        (WaitReason.LIMIT, "", "a", None)
    }
    assert "'a'" in waiting[0].description
    waiting = [task.waiting_for for each in ids["slow"] if (task := await client.get(each)).waiting_for is not None]
    assert {(each.reason, each.limit_key, each.until) for each in waiting} == {
        (WaitReason.LIMIT, "slow", at + timedelta(minutes=1))
    }
    assert (await client.get(ids["a"][0])).limit_key == "a"


async def test_a_retry_is_of_the_same_key(server: Server, client: Client, inbox: Inbox) -> None:
    """It counts for its limit and takes its turn."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=1), share=1))
    office = inbox.after = Office(server)
    office.fails = {b"a %d" % n for n in range(5)}
    await inbox.works("mail", concurrency=10)
    retry = RetryPolicy(initial_backoff=0.1, jitter=0)
    ids = await schedule(client, "a", 5, server.now + timedelta(seconds=1), retry=retry)
    await server.advance(seconds=60)
    assert len(inbox.got) == 10
    assert office.most["a"] == 1
    assert {(await client.get(each)).state for each in ids} == {TaskState.ACKED}
    await ledger(server)


async def test_a_restart_keeps_keys_and_counts_what_workers_bring_back(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """What is in hand goes on over the restart, and nothing else of its key starts beside it."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=2), share=1))
    office = inbox.after = Office(server, seconds=30)
    await inbox.works("mail", concurrency=10)
    ids = await schedule(client, "a", 6, server.now + timedelta(seconds=1))
    await schedule(client, "b", 6, server.now + timedelta(seconds=1))
    await server.advance(seconds=10)
    assert len(inbox.got) == 4
    await server.restart()
    assert (await client.get(ids[5])).limit_key == "a"
    await server.advance(minutes=3)
    assert len(inbox.got) == 12
    assert office.most == {"a": 2, "b": 2}
    await ledger(server)


async def test_what_is_cancelled_or_expires_in_its_turn_takes_none(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Of customers of whom all but the last are cancelled, or expire, the last one comes as if it was alone."""
    await client.queues.put("mail", keys=KeyRules(share=1))
    inbox.after = Office(server, seconds=10)
    await inbox.works("mail", concurrency=1)
    at = server.now + timedelta(seconds=1)
    first = await schedule(client, "a", 50, at)
    await schedule(client, "b", 10, at)
    await schedule(client, "e", 50, at, expire_after=15)
    await client.schedule("mail", b"e 50", at=at + timedelta(seconds=1), limit_key="e")
    await server.advance(seconds=2)
    for each in first[1:49]:
        await client.cancel(each)
    await server.advance(minutes=5)
    got = Counter(each.payload.split()[0] for each in inbox.got)
    assert 1 <= got.pop(b"e") <= 3
    assert inbox.payloads.index(b"e 50") <= 8
    assert got == {b"a": 2, b"b": 10}
    assert [each for each in inbox.payloads if each.startswith(b"a")] == [b"a 0", b"a 49"]
    assert inbox.payloads.index(b"a 49") <= 6
    await ledger(server)


async def test_within_a_key_the_order_of_the_queue_holds(server: Server, client: Client, inbox: Inbox) -> None:
    """By due time, and a level of priority is worth 64 s."""
    await client.queues.put("mail", keys=KeyRules(KeyLimit(max_in_hand=1), share=1))
    at = server.now + timedelta(seconds=5)
    for n in (3, 1, 2):
        await client.schedule("mail", b"a %d" % n, at=at + timedelta(seconds=n), limit_key="a")
    await client.schedule("mail", b"a 0", at=at + timedelta(seconds=30), limit_key="a", priority=1)
    await server.advance(minutes=1)
    await inbox.works("mail")
    await server.advance(seconds=5)
    assert inbox.payloads == [b"a 0", b"a 1", b"a 2", b"a 3"]


async def test_wrong_rules_and_keys_are_refused(server: Server, client: Client) -> None:
    with pytest.raises(InvalidTask, match="share"):
        await client.queues.put("mail", keys=KeyRules(share=1.5))
    with pytest.raises(InvalidTask, match="at most 256"):
        await client.queues.put("mail", keys=KeyRules(overrides={"k" * 257: KeyLimit(max_in_hand=1)}))
    with pytest.raises(InvalidTask, match="burst"):
        await client.queues.put("mail", keys=KeyRules(KeyLimit(rate="1000/s", burst=1)))
    with pytest.raises(InvalidTask, match="at most 256"):
        await client.schedule("mail", b"", delay=1, limit_key="k" * 257)
    assert (await client.queues.get("mail")).keys is None
