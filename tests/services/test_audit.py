"""What operators do is written down: before it is done, and what became of it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.services.access_rig import proof, write
from tests.web.rig import CONFIG, serving
from timerd.adapters.memory import MemoryStore
from timerd.client import AccessDenied, Client, InvalidTask, Unavailable
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.model.errors import StartupError, StoreUnavailable
from timerd.services.transport.access import NEEDED
from timerd.services.transport.audit import AUDITED
from timerd.services.transport.audit_log import read_audit_log
from timerd.services.transport.audit_records import AuditRecords, new_call_id
from timerd.services.transport.roles import OPERATE
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.overview_service_pb2 import ListAuditedCallsRequest, ListAuditedCallsResponse

LATER = datetime(2030, 6, 1, tzinfo=UTC)
READS = {
    *("ListDeadLetters", "GetServerInfo", "GetCluster", "GetPartition"),
    *("GetQueue", "ListQueues", "GetLimit", "ListLimits", "ListKeys"),
}
OPERATED = ("TimerService", "RegulationService")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
async def server(log: Path) -> AsyncIterator[Server]:
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", auth=AuthConfig(audit_file=log))
    async with Server(config=config) as server:
        yield server


def stages(log: Path) -> list[str]:
    return [json.loads(line)["stage"] for line in log.read_text().splitlines()]


async def until(log: Path, lines: int) -> None:
    """The second line of a call that is refused may come after the reply."""
    while len(stages(log)) < lines:  # noqa: ASYNC110 - nobody tells of a line in a file
        await asyncio.sleep(0.01)


def mode(log: Path) -> int:
    return log.stat().st_mode


def put_folder(log: Path) -> None:
    """Where nothing can be written to."""
    log.unlink()
    log.mkdir()


def test_every_verb_of_operators_that_changes_something_is_audited() -> None:
    of_operators = {
        name for name, roles in NEEDED.items() if OPERATE in roles and name.split("/")[1].endswith(OPERATED)
    }
    assert {name.rpartition("/")[2] for name in of_operators} - READS == {name.rpartition("/")[2] for name in AUDITED}


async def test_a_verb_is_written_down_with_what_became_of_it(server: Server, log: Path) -> None:
    async with Client(server.address) as client:
        await client.schedule("mails", b"x", at=LATER)
        await client.purge(queue="mails", force=True)
        with pytest.raises(InvalidTask):
            await client.purge(queue="no queue", force=True)
    await until(log, 5)
    assert stages(log) == ["began", "asked", "ended", "asked", "ended"]
    purged, refused = read_audit_log(log)
    assert (purged.method, purged.outcome, purged.caller) == ("Purge", "OK", "")
    assert purged.request["filter"]["queue"] == "mails"
    assert purged.peer.startswith("ipv4:127.0.0.1:")
    assert refused.outcome == "INVALID_ARGUMENT"
    assert "no queue" in refused.result
    assert mode(log) & 0o007 == 0


async def test_an_instant_that_is_none_is_written_down_as_it_is(server: Server, log: Path) -> None:
    """JSON has no form for it, and what is wrong with it is for the verb to say."""
    request = pb.RedriveRequest(queue="mails")
    request.start_time.nanos = -5
    async with Client(server.address) as client:
        with pytest.raises(InvalidTask, match="start_time"):
            await client._calls("Redrive", request, pb.RedriveResponse)
    await until(log, 3)
    [refused] = read_audit_log(log)
    assert refused.outcome == "INVALID_ARGUMENT"
    assert "nanos: -5" in refused.request["unreadable"][0]


async def test_what_cannot_be_written_down_is_not_done(server: Server, log: Path) -> None:
    async with Client(server.address, timeout=5) as client:
        task = await client.schedule("mails", b"x", at=LATER)
        put_folder(log)
        with pytest.raises(Unavailable, match=r"cannot write its audit log .*so nothing was done"):
            await client.purge(queue="mails", force=True)
        assert (await client.get(task.id)).state.name == "PENDING"


async def test_half_a_line_is_not_written_down(server: Server, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk has room for the beginning of it."""
    monkeypatch.setattr("timerd.services.transport.audit_log.os.write", partial(half, os.write))
    async with Client(server.address, timeout=5) as client:
        task = await client.schedule("mails", b"x", at=LATER)
        with pytest.raises(Unavailable, match="No space left"):
            await client.purge(queue="mails", force=True)
        monkeypatch.undo()
        assert (await client.get(task.id)).state.name == "PENDING"
        await client.purge(queue="mails", force=True)
    assert [call.outcome for call in read_audit_log(log)] == ["OK"]


def half(write: Callable[[int, bytes], int], number: int, data: bytes) -> int:
    return write(number, data[: len(data) // 2 or 1])


async def test_who_may_not_do_it_does_not_fill_the_log(tmp_path: Path, log: Path) -> None:
    authority, principals = Authority(tmp_path), tmp_path / "principals"
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    write(principals, f"mails schedule {proof('t-mails')}\nops operate {proof('t-ops')}\n")
    config = ServerConfig(
        listen="127.0.0.1:0",
        synchronous="normal",
        tls=TlsConfig(certificate_file=pair.certificate, key_file=pair.key),
        auth=AuthConfig(principals_file=principals, audit_file=log),
    )
    async with Server(config=config) as server:
        for token in ("t-mails", "t-ops"):
            async with Client(server.address, ca_file=authority.certificate, token=token) as client:
                try:
                    await client.purge(queue="mails", force=True)
                except AccessDenied:
                    assert token == "t-mails"
    (purged,) = read_audit_log(log)
    assert (purged.caller, purged.method) == ("ops", "Purge")


async def test_a_call_by_http_is_written_down_as_well(log: Path) -> None:
    """With one id everywhere."""
    async with serving(replace(CONFIG, auth=AuthConfig(audit_file=log))) as rig:
        answer = await rig.caller.rpc("TimerService/Purge", {"filter": {"queue": "no queue"}, "force": True})
        assert answer.status == 400
        await until(log, 3)
        told = (await rig.caller.ask("GET", "/v1/audit")).json
    (purged,) = read_audit_log(log)
    assert [call["id"] for call in told["calls"]] == [purged.id]
    assert (purged.peer, purged.outcome) == ("http:127.0.0.1", "INVALID_ARGUMENT")


async def test_the_server_tells_what_was_done_without_a_file_as_well() -> None:
    """The newest first."""
    async with Server() as server, Client(server.address) as client:
        await client.purge(queue="mails", force=True)
        with pytest.raises(InvalidTask):
            await client.purge(queue="no queue", force=True)
        await client.redrive(queue="mails")
        told = [call async for call in client.audited(page_size=1)]
        assert [(call.method, call.outcome) for call in told] == [
            ("Redrive", "OK"),
            ("Purge", "INVALID_ARGUMENT"),
            ("Purge", "OK"),
        ]
        assert json.loads(told[2].request)["filter"]["queue"] == "mails"
        assert len({call.id for call in told}) == 3
        assert "no queue" in told[1].result
        assert [call.method async for call in client.audited(method="Redrive")] == ["Redrive"]
        assert [call async for call in client.audited("somebody")] == []
        assert [call async for call in client.audited(end=server.now)] == []
        with pytest.raises(InvalidTask, match="page_token is none that this server gave"):
            await client._calls(
                "ListAuditedCalls",
                ListAuditedCallsRequest(page_token="x"),
                ListAuditedCallsResponse,
                "OverviewService",
            )


async def test_it_is_told_after_a_restart_and_gone_after_ninety_days() -> None:
    async with Server() as server:
        async with Client(server.address) as client:
            await client.purge(queue="mails", force=True)
        await server.restart()
        async with Client(server.address) as client:
            await server.advance(days=89)
            await server.node.keep_house()
            assert len([call async for call in client.audited()]) == 1
            await server.advance(days=2)
            await server.node.keep_house()
            assert [call async for call in client.audited()] == []


async def test_what_the_store_cannot_write_down_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server() as server, Client(server.address, timeout=5) as client:
        task = await client.schedule("mails", b"x", at=LATER)
        monkeypatch.setattr(AuditRecords, "write", away)
        with pytest.raises(Unavailable, match=r"cannot write down in its store .*so nothing was done"):
            await client.purge(queue="mails", force=True)
        assert (await client.get(task.id)).state.name == "PENDING"


async def away(*_: object) -> None:
    raise StoreUnavailable("It is away.", "STORE_DOWN")


async def test_what_was_cut_off_is_told_as_unknown() -> None:
    store, now_ms = MemoryStore(), 1_800_000_000_000
    records = AuditRecords(store, lambda: now_ms)
    asked = {"stage": "asked", "caller": "ops", "peer": "ipv4:1", "request": {}}
    for method, late_ms in (("Purge", 0), ("Redrive", 1)):
        of_call = {"at": "2026-06-01T09:00:00.000Z", "id": new_call_id(now_ms + late_ms), "method": method}
        await records.write({**asked, **of_call})
    await records.write({"id": of_call["id"], "stage": "ended", "outcome": "OK", "result": {}})
    told = [call async for call in records.calls(0, now_ms + 2, "")]
    assert [(call.method, call.outcome) for call in told] == [("Redrive", "OK"), ("Purge", "unknown")]


async def test_a_call_of_an_operator_is_told_by_http() -> None:
    async with serving(CONFIG) as rig:
        await rig.caller.rpc("TimerService/Purge", {"filter": {"queue": "no queue"}, "force": True})
        answer = await rig.caller.ask("GET", "/v1/audit?method=Purge&max=10")
        (call,) = answer.json["calls"]
    assert (call["peer"], call["outcome"]) == ("http:127.0.0.1", "INVALID_ARGUMENT")
    assert call["request"]["filter"] == {"queue": "no queue"}


async def test_a_server_that_could_not_write_it_does_not_start(tmp_path: Path) -> None:
    config = ServerConfig(listen="127.0.0.1:0", auth=AuthConfig(audit_file=tmp_path / "absent" / "audit.log"))
    with pytest.raises(StartupError, match="Cannot write the audit log"):
        async with Server(config=config):
            pass
