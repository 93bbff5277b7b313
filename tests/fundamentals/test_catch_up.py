"""G14: what was missed in an outage is loaded at a bounded rate; what is on time is not held up by it."""

from __future__ import annotations

from datetime import timedelta

import pytest

import timerd.bootstrap
from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client
from timerd.testing import Server


async def test_only_what_was_missed_waits_for_its_turn(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row of the missed buckets passes the throttle, once more where it was parked, and no other does."""
    waited: list[int] = []

    class Counting:
        def __init__(self, rows_per_s: int) -> None:
            assert rows_per_s == 50_000

        async def wait(self, rows: int) -> None:
            waited.append(rows)

    monkeypatch.setattr(timerd.bootstrap, "Throttle", Counting)
    start = server.now
    missed = [(b"%d" % n, start + timedelta(minutes=10 * n)) for n in range(2, 8)]
    on_time = [(b"on time", start + timedelta(hours=3, minutes=n)) for n in range(20)]
    await client.schedule_many("mails", missed + on_time)
    await server.stop()
    await server.advance(hours=2)
    await server.start()
    await inbox.works("mails")
    await server.advance(hours=2)
    assert inbox.payloads == [payload for payload, _ in missed + on_time]
    counts = await ledger(server)
    assert sum(waited) == len(missed) + counts["carried"]
