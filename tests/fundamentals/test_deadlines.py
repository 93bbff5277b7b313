"""A queue that goes by deadlines: what is late soonest is sent first, and what is late already last."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, InvalidTask, QueueOrder
from timerd.testing import Server

MINUTE = timedelta(minutes=1)


async def test_what_is_late_soonest_goes_first_and_what_is_late_last(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """Whatever was due before. What has no deadline goes with what is late, by age."""
    assert (await client.queues.put("mail", order="edf")).order is QueueOrder.EDF
    due = server.now + MINUTE
    for payload, spans in (
        (b"late", {"soft_expire_after": 30}),
        (b"none", {}),
        (b"soft", {"soft_expire_after": 600}),
        (b"firm", {"expire_after": 300}),
        (b"both", {"expire_after": 900, "soft_expire_after": 400}),
    ):
        due += timedelta(seconds=1)
        await client.schedule("mail", payload, at=due, **spans)  # type: ignore[arg-type]
    await server.advance(minutes=3)
    await inbox.works("mail", concurrency=1)
    await server.advance(seconds=1)
    assert inbox.payloads == [b"firm", b"both", b"soft", b"late", b"none"]
    await ledger(server)


async def test_the_order_counts_from_when_it_is_given(server: Server, client: Client, inbox: Inbox) -> None:
    """Also for what waits, and it outlives a restart. Rules of limit keys do not go with it."""
    due = server.now + MINUTE
    for n in range(4):
        await client.schedule(
            "mail", b"%d" % n, at=due + timedelta(seconds=n), soft_expire_after=600 - 100 * n, limit_key="acme"
        )
    await server.advance(minutes=2)
    await client.queues.update("mail", order="edf")
    await server.restart()
    with pytest.raises(InvalidTask, match="leave `keys` out"):
        await client.queues.update("mail", key_max_in_hand=1)
    received = [await client.receive("mail", max=1, wait=0) for _ in range(2)]
    assert [each.payload for tasks in received for each in tasks] == [b"3", b"2"]
    assert (await client.queues.update("mail", order="aged", key_share=1)).order is QueueOrder.AGED
    assert [each.payload for each in await client.receive("mail", max=2, wait=0)] == [b"0", b"1"]
