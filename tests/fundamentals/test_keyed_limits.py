"""Limits that each customer has for itself, over all queues that list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import (
    Client,
    FailedPrecondition,
    InvalidTask,
    KeyLimit,
    KeyRules,
    QueueLimit,
    WaitReason,
)
from timerd.testing import Server
from timerd.worker import Delivery, Throttled

SECOND = timedelta(seconds=1)
BOTH = ("charges", "refunds")
# So that a key has no less than its limits say.
ALL = KeyRules(share=1)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(data=tmp_path / "data") as running:
        yield running


class Office:
    """A handler that works for ten seconds, and counts what of each customer is in hand, of both queues."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.open, self.most = Counter[str](), Counter[str]()

    async def __call__(self, delivery: Delivery) -> None:
        customer = delivery.payload.decode()
        self.open[customer] += 1
        self.most[customer] = max(self.most[customer], self.open[customer])
        await self._server.sleep(seconds=10)
        self.open[customer] -= 1


async def schedule(client: Client, customer: str, count: int, at: datetime, *queues: str) -> list[str]:
    calls = [client.schedule(queue, customer, at=at, limit_key=customer) for _ in range(count) for queue in queues]
    return [(await call).id for call in calls]


async def list_it(client: Client, limit: str, *queues: str) -> None:
    for queue in queues:
        await client.queues.put(queue, limits=[limit], keys=ALL)


async def test_each_customer_has_so_many_in_hand_of_all_queues(server: Server, client: Client, inbox: Inbox) -> None:
    """Three of each, five of one, any number of another; a task without a customer, and other queues, go on."""
    inbox.after = office = Office(server)
    await inbox.works(*BOTH, "free", concurrency=32)
    own = {"big": KeyLimit(max_in_hand=5), "any": KeyLimit()}
    put = await client.limits.put("partner", max_in_hand=3, keyed=True, overrides=own)
    assert (put.keyed, put.limit.max_in_hand, put.overrides["any"]) == (True, 3, None)
    assert put.overrides["big"] == QueueLimit(5, None, SECOND, 0)
    await list_it(client, "partner", *BOTH)
    for customer in ("ann", "bob", "big", "any", ""):
        await schedule(client, customer, 6, server.now + SECOND, *BOTH)
    await schedule(client, "ann", 4, server.now + SECOND, "free")
    await server.advance(seconds=5)
    assert office.open == {"ann": 3 + 4, "bob": 3, "big": 5, "any": 12, "": 12}
    assert (await client.limits.get("partner")).in_hand == 3 + 3 + 5 + 12 + 12
    await server.advance(minutes=2)
    assert (len(inbox.got), office.most["bob"], office.most["big"]) == (5 * 12 + 4, 3, 5)
    await ledger(server)


async def test_each_customer_starts_by_the_rate(server: Server, client: Client, inbox: Inbox) -> None:
    await inbox.works(*BOTH)
    await client.limits.put("partner", rate="10/s", burst=2, keyed=True)
    await list_it(client, "partner", *BOTH)
    due = server.now + SECOND
    for customer in ("ann", "bob"):
        await schedule(client, customer, 20, due, *BOTH)
    await server.advance(seconds=3)
    started = Counter(inbox.payloads)
    assert started == {b"ann": 2 + 20, b"bob": 2 + 20}
    by_queue = Counter((each.delivery.queue, each.payload) for each in inbox.got)
    assert min(by_queue.values()) >= 8, "queues that wait for the same key take turns"
    await server.advance(seconds=5)
    assert len(inbox.got) == 80


async def test_a_change_counts_at_once(server: Server, client: Client, inbox: Inbox) -> None:
    """Also that a queue lists it no more: what it has in hand leaves room for the others."""
    inbox.after = office = Office(server)
    await inbox.works(*BOTH, concurrency=32)
    await client.limits.put("partner", max_in_hand=2, keyed=True)
    await list_it(client, "partner", "charges")
    await schedule(client, "ann", 12, server.now, "charges")
    await server.advance(seconds=1)
    assert office.open["ann"] == 2
    await client.limits.put("partner", max_in_hand=4, keyed=True)
    await server.settle()
    assert office.open["ann"] == 4
    await list_it(client, "partner", "refunds")
    await schedule(client, "ann", 4, server.now, "refunds")
    await server.settle()
    assert office.open["ann"] == 4
    await client.queues.put("charges", keys=ALL)
    await server.settle()
    assert office.open["ann"] == 12 + 4
    await client.limits.put("partner", max_in_hand=2)
    assert not (await client.limits.get("partner")).keyed


async def test_a_restart_counts_what_workers_bring_back(server: Server, client: Client, inbox: Inbox) -> None:
    inbox.after = office = Office(server)
    await inbox.works(*BOTH, concurrency=32)
    await client.limits.put("partner", max_in_hand=3, keyed=True)
    await list_it(client, "partner", *BOTH)
    await schedule(client, "ann", 6, server.now + SECOND, *BOTH)
    await server.advance(seconds=2)
    await server.restart()
    await server.advance(minutes=3)
    assert (office.most["ann"], len(inbox.got)) == (3, 12)
    assert (await client.limits.get("partner")).keyed


async def test_a_task_that_waits_says_for_which_limit_and_key(server: Server, client: Client, inbox: Inbox) -> None:
    inbox.after = Office(server)
    await inbox.works(*BOTH, concurrency=32)
    await client.limits.put("partner", max_in_hand=1, keyed=True)
    await list_it(client, "partner", *BOTH)
    await schedule(client, "ann", 1, server.now, "charges")
    await server.settle()
    [task_id] = await schedule(client, "ann", 1, server.now, "refunds")
    await server.settle()
    said = (await client.get(task_id)).waiting_for
    assert said is not None
    assert (said.reason, said.limit, said.limit_key) == (WaitReason.LIMIT, "partner", "ann")
    assert "of the limit key 'ann' of the limit 'partner' in hand" in said.description


async def test_a_partner_that_says_wait_holds_its_own_tasks(server: Server, client: Client, inbox: Inbox) -> None:
    """Of both queues; the other customers go on."""

    async def told(delivery: Delivery) -> None:
        if delivery.payload == b"ann" and len(inbox.got) == 1:
            raise Throttled(after=60, limit="partner")

    inbox.after = told
    await inbox.works(*BOTH)
    await client.limits.put("partner", max_in_hand=9, keyed=True)
    await list_it(client, "partner", *BOTH)
    [held] = await schedule(client, "ann", 1, server.now, "charges")
    await server.settle()
    [other] = await schedule(client, "ann", 1, server.now, "refunds")
    await schedule(client, "bob", 1, server.now, "refunds")
    await server.advance(seconds=30)
    assert inbox.payloads == [b"ann", b"bob"]
    for task_id in (held, other):
        said = (await client.get(task_id)).waiting_for
        assert said is not None
        assert (said.limit, said.limit_key) == ("partner", "ann")
        assert "A handler was throttled" in said.description
    assert (await client.limits.get("partner")).held_until is None
    await server.advance(seconds=40)
    assert sorted(inbox.payloads) == [b"ann", b"ann", b"ann", b"bob"]


async def test_a_limit_shows_which_keys_may_start_nothing(server: Server, client: Client, inbox: Inbox) -> None:
    """Those with the most due first; one that may start another one is none of them."""
    inbox.after = Office(server)
    await inbox.works(*BOTH, concurrency=32)
    await client.limits.put("partner", max_in_hand=2, keyed=True, overrides={"big": KeyLimit(max_in_hand=4)})
    await list_it(client, "partner", *BOTH)
    for customer, tasks in (("ann", 1), ("bob", 3), ("big", 2), ("cat", 2), ("", 3)):
        await schedule(client, customer, tasks, server.now + SECOND, *BOTH)
    await schedule(client, "dan", 1, server.now + SECOND, "charges")
    await server.advance(seconds=2)
    shown = await client.limits.get("partner")
    at_limit = [(each.limit_key, each.in_hand, each.waiting) for each in shown.keys_at_limit]
    assert at_limit == [("bob", 2, 4), ("cat", 2, 2), ("big", 4, 0), ("ann", 2, 0)]
    assert (shown.keys_at_limit_count, {each.next_time for each in shown.keys_at_limit}) == (4, {None})
    assert [each.keys_at_limit async for each in client.limits.list()] == [()]
    await server.advance(minutes=1)
    assert (await client.limits.get("partner")).keys_at_limit_count == 0


async def test_a_limit_shows_when_a_key_may_start_the_next_one(server: Server, client: Client, inbox: Inbox) -> None:
    async def told(delivery: Delivery) -> None:
        if delivery.payload == b"bob" and inbox.payloads.count(b"bob") == 1:
            raise Throttled(after=30, limit="partner")

    inbox.after = told
    await inbox.works(*BOTH)
    await client.limits.put("partner", rate="1/10s", burst=1, keyed=True)
    await list_it(client, "partner", *BOTH)
    due = server.now + SECOND
    await schedule(client, "ann", 1, due, *BOTH)
    await schedule(client, "bob", 1, due, "charges")
    await server.advance(seconds=2)
    ann, bob = (await client.limits.get("partner")).keys_at_limit
    assert (ann.limit_key, ann.in_hand, ann.waiting, ann.throttled) == ("ann", 0, 1, False)
    assert (bob.limit_key, bob.waiting, bob.throttled) == ("bob", 1, True)
    assert ann.next_time is not None
    assert bob.next_time is not None
    assert (ann.next_time - due, bob.next_time - due >= 30 * SECOND) == (10 * SECOND, True)


async def test_what_cannot_be_is_refused(server: Server, client: Client) -> None:
    with pytest.raises(InvalidTask, match="so no key has another one"):
        await client.limits.put("partner", max_in_hand=3, overrides={"ann": KeyLimit(max_in_hand=2)})
    with pytest.raises(InvalidTask, match="The limit limits nothing"):
        await client.limits.put("partner", keyed=True)
    await client.limits.put("partner", max_in_hand=3, keyed=True)
    with pytest.raises(FailedPrecondition, match="goes by deadlines") as by_deadline:
        await client.queues.put("labels", limits=["partner"], order="edf")
    assert by_deadline.value.reason == "LIMIT_OF_KEYS"
    await client.queues.put("mail", limits=["partner"])
    with pytest.raises(FailedPrecondition, match="goes by deadlines"):
        await client.queues.update("mail", order="edf")
    await client.limits.put("plain", max_in_hand=3)
    await client.queues.put("labels", limits=["plain"], order="edf")
    with pytest.raises(FailedPrecondition, match="is listed by 'labels', which goes by deadlines"):
        await client.limits.put("plain", max_in_hand=3, keyed=True)
    assert not (await client.limits.get("plain")).keyed
