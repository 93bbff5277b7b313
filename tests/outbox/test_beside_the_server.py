"""A relay that the server keeps running: rows become tasks without another service, and nothing stays behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.outbox.made import schedule
from tests.outbox.typed import FAR_MS, put, status
from tests.process.children import Server, run_cli
from tests.process.waiting import until
from timerd import bootstrap
from timerd.client import NotFound, SyncClient
from timerd.commands import relay_process
from timerd.commands.output import Output
from timerd.commands.relay_process import connectable
from timerd.commands.serve import run_until_stopped
from timerd.config import OutboxConfig, ServerConfig
from timerd.observability import logs

pytestmark = pytest.mark.process


def relays_of(server_pid: int) -> list[int]:
    """The processes that it has started."""
    children = Path(f"/proc/{server_pid}/task/{server_pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def is_there(client: SyncClient, key: str) -> bool:
    try:
        client.get(key=key)
    except NotFound:
        return False
    return True


def is_alive(pid: int) -> bool:
    """One that has ended and was not asked for its end yet counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_rows_become_tasks_over_kills_of_relay_and_server(url: str, tmp_path: Path) -> None:
    run_cli("outbox", "init", "--database", url)
    server = Server(tmp_path, "--set", f"outbox.relay_database={url}")
    try:
        server.start()
        with SyncClient(server.address, timeout=30) as client:
            await put(url, schedule(b"1", "ada", fire_at_ms=FAR_MS))
            until(lambda: is_there(client, "ada"), "the first row is a task")
            [first] = relays_of(server.pid)
            os.kill(first, signal.SIGKILL)
            await put(url, schedule(b"2", "bob", fire_at_ms=FAR_MS))
            until(lambda: is_there(client, "bob"), "another relay has sent the second row")
        assert "is started again" in server.errors()
        [second] = relays_of(server.pid)
        server.kill()
        until(lambda: not is_alive(second), "the relay has ended with the server")
        await put(url, schedule(b"3", "eve", fire_at_ms=FAR_MS))
        server.start()
        with SyncClient(server.address, timeout=30) as client:
            until(lambda: is_there(client, "eve"), "the third row is a task")
        [third] = relays_of(server.pid)
        server.terminate()
        until(lambda: not is_alive(third), "the relay was stopped")
        assert status(url)["rows"] == 0
    finally:
        server.kill()


def test_the_relay_is_ended_while_the_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it need not wait for a server that is gone."""
    told: list[str] = []

    class Relay:
        def __init__(self, _config: OutboxConfig, address: str) -> None:
            told.append(f"a relay for {address}")

        def start(self) -> None:
            told.append("it starts")

        async def stop(self) -> None:
            told.append("it ends")

    async def run(
        _: ServerConfig, ready: Callable[[str, str], None], before_stop: Callable[[], Awaitable[None]]
    ) -> None:
        ready("127.0.0.1:7400", "")
        await before_stop()
        told.append("the server ends")

    # The signals and the log of the tests stay as they are.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(logs, "set_up", lambda _: None)
    monkeypatch.setattr(relay_process, "RelayProcess", Relay)
    monkeypatch.setattr(bootstrap, "serve", run)
    database = SecretStr("sqlite:///shop.db")
    run_until_stopped(ServerConfig(outbox=OutboxConfig(relay_database=database)), Output())
    assert told[:4] == ["a relay for 127.0.0.1:7400", "it starts", "it ends", "the server ends"]


def test_an_address_that_is_none_is_refused_at_the_start() -> None:
    for command in (("serve",), ("config", "check")):
        ran = run_cli(*command, "--set", "outbox.relay_database=oracle://app:canary4711@host/shop")
        assert ran.returncode == 2
        assert "outbox.relay_database: The address of the database begins with postgresql://" in ran.stderr
        assert "canary4711" not in ran.stderr


@pytest.mark.parametrize(
    ("listens", "connects"),
    [("0.0.0.0:7400", "127.0.0.1:7400"), ("[::]:7400", "[::1]:7400"), ("10.0.0.1:7400", "10.0.0.1:7400")],
)
def test_it_connects_to_where_the_server_listens(listens: str, connects: str) -> None:
    assert connectable(listens) == connects
