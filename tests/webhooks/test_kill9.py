"""A server that is killed while requests are open: its tasks are posted again, and each receiver can tell."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.conftest import Children
from tests.webhooks.conftest import config_of
from tests.webhooks.receiver import accept, never, receiving
from timerd.client import Client

pytestmark = [pytest.mark.process, pytest.mark.timeout(280)]
TASKS, OPEN = 30, 10


async def test_what_was_open_is_posted_again_and_the_rest_once(children: Children, tmp_path: Path) -> None:
    async with receiving(never) as receiver:
        webhooks = config_of(tmp_path, {"mails": (receiver, f"in_flight = {OPEN}\ntimeout_s = 600")}).webhooks
        settings = {
            "targets_file": webhooks.targets_file,
            "hosts": "127.0.0.1",
            "insecure_hosts": "127.0.0.1",
            "private_networks": "127.0.0.1/32",
        }
        flags = [word for name, value in settings.items() for word in ("--set", f"webhooks.{name}={value}")]
        server = children.own(Server(tmp_path, *flags))
        await asyncio.to_thread(server.start)
        async with Client(server.address, timeout=60) as client:
            for number in range(TASKS):
                await client.schedule("mails", b"%d" % number, delay=0)
        await receiver.until(OPEN)
        await asyncio.to_thread(server.kill)
        receiver.answer = accept
        await asyncio.to_thread(server.start)
        await receiver.until(TASKS + OPEN)
        await asyncio.to_thread(server.terminate)
        first, again = receiver.got[:OPEN], receiver.got[OPEN:]
        assert {each.body for each in again} == {b"%d" % number for number in range(TASKS)}
        ids = {each.body: each.headers["webhook-id"] for each in again}
        assert {each.body: each.headers["webhook-id"] for each in first}.items() <= ids.items()
        assert Counter(each.body for each in again).most_common(1)[0][1] == 1
