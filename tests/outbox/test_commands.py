"""`timerd outbox` in a terminal, on both engines: from an empty database to a task, and what is said on the way."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.outbox.made import move, schedule
from tests.outbox.typed import FAR_MS, put, status
from tests.process.children import Child, Server, run_cli
from tests.process.waiting import until
from timerd.client import SyncClient
from timerd.demo.processes import free_port
from timerd.outbox.opening import open_outbox

pytestmark = pytest.mark.process


async def test_from_an_empty_database_to_a_task(url: str, tmp_path: Path) -> None:
    assert run_cli("outbox", "init", "--database", url).stdout.startswith("There is an outbox in ")
    await put(url, schedule(b"welcome", "ada", fire_at_ms=FAR_MS), move("nobody", FAR_MS))
    assert status(url)["rows"] == 2
    server = Server(tmp_path)
    arguments = ["-m", "timerd.cli", "outbox", "run", "--database", url, "--server", server.address, "--json"]
    relay = Child(arguments, tmp_path / "relay.err")
    try:
        # The relay is there before the server is, and waits for it.
        assert set(json.loads(relay.start())) == {"relay", "database", "server"}
        until(lambda: "was not taken" in relay.errors(), "the relay says that the server is away")
        server.start()
        until(lambda: not status(url)["rows"] and not status(url)["sealed"], "the outbox is empty")
        with SyncClient(server.address) as client:
            assert client.get(key="ada").payload == b"welcome"
        relay.signal(signal.SIGINT)
        said = json.loads(relay.rest(1)[0])
        assert (said["tasks"], said["refused"]) == (1, 1)
        assert relay.wait() == 0
    finally:
        relay.kill()
        server.kill()
    refused = run_cli("outbox", "refused", "--database", url)
    assert re.search(r"^ +1 .* reschedule +nobody +NOT_FOUND +No task has the", refused.stdout, re.MULTILINE)
    assert max(map(len, refused.stdout.splitlines())) <= 80
    assert run_cli("outbox", "refused", "1", "--again", "--database", url).stdout.startswith("1 row was put into")
    assert status(url)["rows"] == 1
    assert run_cli("outbox", "refused", "--database", url).stdout == "No row was refused.\n"


async def test_status_is_a_check(url: str) -> None:
    run_cli("outbox", "init", "--database", url)
    fresh = run_cli("outbox", "status", "--database", url)
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert re.search(r"^rows waiting  0$", fresh.stdout, re.MULTILINE)
    await put(url, schedule(b"1"))
    store = open_outbox(url)
    await store.seal("0123456789abcdef", 60.0)
    await store.close()
    shown = run_cli("outbox", "status", "--database", url).stdout
    assert re.search(r"^number  tasks  sealed +relay +lease ends$", shown, re.MULTILINE)
    assert re.search(r"^on their way  1$", shown, re.MULTILINE)


def test_a_row_that_waits_for_long_is_an_alarm(sqlite_url: str, tmp_path: Path) -> None:
    run_cli("outbox", "init", "--database", sqlite_url)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute(
            "INSERT INTO timerd_outbox (queue, payload, fire_at_ms, inserted_ms) VALUES ('mails', x'00', 1, 1)"
        )
    ran = run_cli("outbox", "status", "--database", sqlite_url)
    assert ran.returncode == 1
    assert "waited for more than a minute" in ran.stderr


def test_init_prints_its_sql(sqlite_url: str, tmp_path: Path) -> None:
    printed = run_cli("outbox", "init", "--print", "--database", sqlite_url).stdout
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.executescript(printed)
    assert run_cli("outbox", "status", "--database", sqlite_url).returncode == 0
    assert "CREATE SCHEMA" in run_cli("outbox", "init", "--print", "--database", "postgresql://127.0.0.1/x").stdout


def test_reset_is_asked_for_twice(sqlite_url: str) -> None:
    run_cli("outbox", "init", "--database", sqlite_url)
    assert run_cli("outbox", "reset", "--database", sqlite_url).returncode == 2
    done = run_cli("outbox", "reset", "--force", "--discard", "--database", sqlite_url, "--json")
    assert json.loads(done.stdout)["discarded"] == 0


def wrong(*arguments: str) -> tuple[int, str]:
    ran = run_cli("outbox", *arguments)
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    return ran.returncode, ran.stderr


def test_wrong_input_is_a_sentence(tmp_path: Path) -> None:
    code, said = wrong("status", "--database", "oracle://127.0.0.1/shop")
    assert (code, "begins with postgresql://, mysql:// or sqlite://" in said) == (2, True)
    code, said = wrong("status", "--database", "mysql://127.0.0.1/")
    assert (code, "mysql://USER:PASSWORD@HOST:PORT/NAME" in said) == (2, True)
    code, said = wrong("init", "--database", f"sqlite:///{tmp_path}/absent.db")
    assert (code, "There is no file" in said) == (1, True)
    code, said = wrong("init", "--database", f"postgresql://app:secret@127.0.0.1:{free_port()}/shop")
    assert (code, "does not answer" in said, "secret" in said) == (3, True, False)
    code, said = wrong("refused", "1", "--database", "sqlite:///x.db")
    assert (code, "--again or --drop" in said) == (2, True)
    code, said = wrong("run", "--database", "sqlite:///x.db", "--lease", "0s")
    assert (code, "--lease 0s: allowed are 1s to 1h" in said) == (2, True)


def test_without_an_outbox_the_relay_says_how_to_make_one(sqlite_url: str) -> None:
    code, said = wrong("run", "--database", sqlite_url)
    assert (code, "timerd outbox init" in said) == (1, True)
