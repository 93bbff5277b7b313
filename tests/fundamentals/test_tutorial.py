"""Schedule and receive: the first lines of the tutorial."""

from __future__ import annotations

from datetime import timedelta

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client
from timerd.testing import Server

MS = timedelta(milliseconds=1)


async def test_a_task_comes_at_its_instant(server: Server, client: Client, inbox: Inbox) -> None:
    """What was scheduled for an instant is handed to the worker exactly then, with its payload."""
    await inbox.works("mails")
    at = server.now + timedelta(hours=3)
    task = await client.schedule("mails", "hello", at=at)
    await server.advance(hours=3)
    assert (inbox.payloads, inbox.times) == ([b"hello"], [at])
    assert inbox.got[0].delivery.task_id == task.id
    assert inbox.got[0].delivery.lateness == timedelta()
    assert await ledger(server) == {"inserted": 1, "acked": 1}
