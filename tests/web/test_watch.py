"""Looking on by HTTP: a line of JSON for what came together, for as long as somebody reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.certificates import Authority
from tests.fundamentals.screen import until
from tests.services.access_rig import proof
from tests.web.rig import CONFIG, Rig, serving
from timerd.config import AuthConfig, TlsConfig
from timerd.worker import Delivery

TOKENS = {name: f"a-token-of-{name}-0123456789" for name in ("ann", "bob", "eve")}
ROLES = {"ann": "view", "bob": "schedule@shop", "eve": "work"}


class Lines:
    """What one who reads has got."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.got: list[dict[str, Any]] = []

    async def one(self) -> dict[str, Any]:
        """Empty: that was all."""
        line = await asyncio.wait_for(self.response.content.readline(), 30)
        self.got.append(json.loads(line) if line else {})
        return self.got[-1]

    async def events(self, number: int) -> list[dict[str, Any]]:
        while len(found := [event for line in self.got for event in line["events"]]) < number:
            await self.one()
        return found


@asynccontextmanager
async def reading(rig: Rig, query: str = "", name: str = "") -> AsyncIterator[Lines]:
    headers = {"Authorization": f"Bearer {TOKENS[name]}"} if name else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{rig.caller.base}/v1/watch{query}", headers=headers) as response,
    ):
        yield Lines(response)


async def works(rig: Rig, *queues: str) -> None:
    worker = rig.server.worker()
    for queue in queues:

        @worker.on(queue)
        async def acknowledge(_delivery: Delivery) -> None:
            """Nothing is to do."""

    await worker.start()


async def nobody_reads(rig: Rig) -> None:
    await until(lambda: not rig.server.node.delivery.tail.is_read)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as running:
        yield running


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Rig]:
    """A server that asks who calls."""
    file = tmp_path / "principals"
    file.write_text("".join(f"{name}  {ROLES[name]}  {proof(token)}\n" for name, token in TOKENS.items()))
    pair = Authority(tmp_path).sign("server", "IP:127.0.0.1")
    tls = TlsConfig(certificate_file=pair.certificate, key_file=pair.key)
    async with serving(replace(CONFIG, tls=tls, auth=AuthConfig(principals_file=file))) as running:
        yield running


async def test_what_is_sent_and_how_it_ends_comes_line_by_line(rig: Rig) -> None:
    await works(rig, "teas", "mails")
    client = rig.server.client()
    await client.schedule("mails", b"", delay=30)
    task = await client.schedule("teas", b"", delay=60)
    async with reading(rig, "?queue=teas") as lines:
        assert await lines.one() == {"events": [], "left_out": 0, "silent": []}
        assert lines.response.headers["Content-Type"] == "application/x-ndjson"
        await rig.server.advance(minutes=2)
        sent, acked = await lines.events(2)
    assert {**sent, "worker": "", "instance": ""} == {
        **{"time": "2030-01-01T00:01:00Z", "kind": "sent", "queue": "teas", "task_id": task.id},
        **{"due_time": "2030-01-01T00:01:00Z", "lateness_ms": 0, "attempt": 1},
        **{"worker": "", "instance": "", "took_ms": 0},
    }
    assert (acked["kind"], acked["task_id"]) == ("acked", task.id)
    await nobody_reads(rig)


async def test_what_is_too_much_is_counted(rig: Rig) -> None:
    await works(rig, "teas")
    await rig.server.client().schedule_many("teas", [(b"", rig.server.now + timedelta(minutes=1))] * 100)
    async with reading(rig, "?max_per_second=10") as lines:
        await lines.one()
        await rig.server.advance(minutes=2)
        await lines.events(20)
        while (left_out := sum(line["left_out"] for line in lines.got)) < 90:
            await lines.one()
    assert left_out == 90


@pytest.mark.parametrize(
    ("query", "said"),
    [("?max_per_second=2000", "from 1 to 1,000"), ("?max_per_second=x", "whole number"), ("?queue=a b", "not allowed")],
)
async def test_what_cannot_be_watched_is_answered_as_any_call(rig: Rig, query: str, said: str) -> None:
    answer = await rig.caller.ask("GET", f"/v1/watch{query.replace(' ', '%20')}")
    assert answer.status == 400
    assert said in answer.json["message"]


async def test_who_may_look_at_tasks_may_watch_in_the_namespace_of_the_role(guarded: Rig) -> None:
    async with reading(guarded, name="ann") as lines:
        assert (await lines.one())["events"] == []
    async with reading(guarded, "?namespace=shop", name="bob") as lines:
        assert (await lines.one())["events"] == []
    for name, query in (("bob", ""), ("eve", "")):
        async with reading(guarded, query, name) as lines:
            assert (lines.response.status, (await lines.one())["code"]) == (403, "permission_denied")
    async with reading(guarded) as lines:
        assert (lines.response.status, (await lines.one())["code"]) == (401, "unauthenticated")


async def test_who_may_no_longer_watch_is_told_so_in_the_last_line(guarded: Rig, tmp_path: Path) -> None:
    async with reading(guarded, name="ann") as lines:
        await lines.one()
        (tmp_path / "principals").write_text(f"bob  schedule  {proof(TOKENS['bob'])}\n")
        while "code" not in (last := await lines.one()):
            pass
        assert last["code"] in ("unauthenticated", "permission_denied")
        assert not await lines.response.content.readline()


async def test_a_server_that_goes_away_says_so_in_the_last_line(rig: Rig) -> None:
    async with reading(rig) as lines:
        await lines.one()
        rig.server.node.server.api.drain()
        while "code" not in (last := await lines.one()):
            pass
    assert (last["code"], last["message"][:24]) == ("unavailable", "The server is going away")


async def test_by_the_path_of_its_method_it_needs_grpc(rig: Rig) -> None:
    answer = await rig.caller.rpc("TimerService/Watch", {})
    assert (answer.status, answer.json["code"]) == (501, "unimplemented")


async def test_one_who_looks_on_takes_no_place_in_the_line(rig: Rig) -> None:
    """As who waits for a task does not."""
    async with asyncio.timeout(30):
        readers = [reading(rig) for _ in range(10)]
        opened = [await each.__aenter__() for each in readers]
        assert [await lines.one() for lines in opened]
        assert (await rig.caller.rpc("TimerService/Count", {})).status == 200
        for each in readers:
            await each.__aexit__(None, None, None)
    await nobody_reads(rig)
