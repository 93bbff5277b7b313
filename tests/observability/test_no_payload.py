"""What callers give is theirs: no log line repeats a payload, however a delivery ends."""

from __future__ import annotations

import logging

import pytest

from timerd.testing import Server
from timerd.worker import Delivery, Reject


async def test_no_line_holds_a_payload(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "timerd")
    async with Server() as server:
        client, worker = server.client(), server.worker()
        seen: list[int] = []

        @worker.on("mails")
        async def handle(delivery: Delivery) -> None:
            seen.append(delivery.attempt)
            if delivery.attempt == 1:
                raise RuntimeError("not yet")
            raise Reject("never")

        await worker.start()
        await client.schedule("mails", b"canary-4711", delay=1, labels={"to": "ada"})
        await server.advance(hours=1)
        assert seen == [1, 2]
    assert "canary-4711" not in caplog.text
