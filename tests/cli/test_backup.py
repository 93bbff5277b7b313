"""A backup of a server that goes on working, brought back elsewhere: all tasks are there, and the ledger says so."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.cli.served import TIMERD, Server, timerd
from tests.sqlite.older import load
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.schema import MIGRATIONS
from timerd.model.registers import Control

pytestmark = pytest.mark.process
TASKS = 2_000


class Caller:
    """Schedules for a minute ahead, one message after the other, until it is told to stop."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.rounds = 0
        self.failed: list[str] = []

    def __enter__(self) -> Caller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            lines = "".join(f"during-{self.rounds}-{number}\n" for number in range(500))
            ran = timerd("schedule", "busy", "--file", "-", "--in", "1h", "--server", self._address, stdin=lines)
            self.failed += [ran.err] if ran.code else []
            self.rounds += 1


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path, dict[str, int]]]:
    """A server with tasks far and near, dead and done, and a copy that was made while it was written to."""
    folder = tmp_path_factory.mktemp("backup")
    server, file = Server(folder), folder / "copy.db"
    to = ("--server", server.address)
    try:
        for span in ("2s", "40d"):
            lines = "".join(f"{span}-{number}\n" for number in range(TASKS))
            assert timerd("schedule", "mails", "--file", "-", "--in", span, *to, stdin=lines).code == 0
        assert timerd("schedule", "done", "--file", "-", "--in", "0s", *to, stdin="1\n2\n3\n4\n5\n").code == 0
        assert timerd("work", "done", "--count", "4", *to).code == 0
        assert timerd("work", "done", "--count", "1", "--exec", "exit 65", *to).code == 0
        with Caller(server.address) as caller:
            made = timerd("backup", str(file), "--data", str(server.data), "--json")
        assert (made.code, caller.failed) == (0, []), made.err
        yield server, file, made.json
    finally:
        server.process.kill()
        server.process.communicate()


def test_the_copy_is_whole_and_private(copied: tuple[Server, Path, dict[str, int]]) -> None:
    _, file, made = copied
    assert made["rows"] >= 2 * TASKS + 5
    assert (made["dead_letters"], made["unexplained"]) == (1, 0)
    assert made["size_bytes"] == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.glob("copy*")) == ["copy.db"]


def test_all_tasks_of_before_are_there_after_a_restore(
    copied: tuple[Server, Path, dict[str, int]], tmp_path: Path
) -> None:
    _, file, made = copied
    restored = timerd("restore", str(file), "--data", str(tmp_path / "data"), "--json")
    assert (restored.code, restored.json["rows"]) == (0, made["rows"]), restored.err
    server = Server(tmp_path)
    to = ("--server", server.address)
    try:
        worked = subprocess.run(
            [*TIMERD, "work", "mails", "--count", str(TASKS), *to],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert sorted(worked.stdout.splitlines()) == sorted(f"2s-{number}" for number in range(TASKS))
        far = timerd("count", "--queue", "mails", "--from", "39d", "--to", "41d", "--json", *to)
        assert far.json == {"count": TASKS, "estimated": False}
        assert [line["last_error"] for line in timerd("dead-letters", "--json", *to).lines] == ["exit code 65"]
        ledger = timerd("doctor", "--json", *to).json["ledger"]
        assert (ledger["acked"], ledger["dead"], ledger["unexplained"]) == (TASKS + 4, 1, 0)
    finally:
        server.stop()


def test_a_restore_does_not_go_over_data(copied: tuple[Server, Path, dict[str, int]]) -> None:
    server, file, _ = copied
    refused = timerd("restore", str(file), "--data", str(server.data))
    assert (refused.code, refused.out) == (1, "")
    assert "holds data already" in refused.err


def test_a_spoilt_copy_is_refused(
    copied: tuple[Server, Path, dict[str, int]], terminal: Terminal, tmp_path: Path
) -> None:
    _, file, _ = copied
    spoilt = tmp_path / "spoilt.db"
    spoilt.write_bytes(file.read_bytes())
    connection = sqlite3.connect(spoilt)
    connection.execute("UPDATE groups SET payloads = x'00' WHERE id = (SELECT max(id) FROM groups)")
    connection.commit()
    connection.close()
    ran = terminal("restore", str(spoilt), "--data", str(tmp_path / "data"))
    assert ran.code == 1
    assert "is damaged" in ran.err
    assert not (tmp_path / "data").exists()


def test_a_copy_without_a_table_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    load(MIGRATIONS[-1].version, tmp_path / "left")
    copy = tmp_path / "left" / DATABASE
    connection = sqlite3.connect(copy)
    connection.execute("DROP TABLE requests")
    connection.commit()
    connection.close()
    ran = terminal("restore", str(copy), "--data", str(tmp_path / "data"))
    assert (ran.code, ran.out) == (1, "")
    assert "lacks the table requests" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_rows_without_a_known_end_are_copied_and_said_to_be_wrong(terminal: Terminal, tmp_path: Path) -> None:
    """What there is is worth having, but whoever relies on the exit code is to look at it."""
    load(MIGRATIONS[-1].version, tmp_path / "left")
    connection = sqlite3.connect(tmp_path / "left" / DATABASE)
    controls = connection.execute("SELECT name, value FROM registers WHERE kind = 'partition_control'").fetchall()
    finished = [(name, control) for name, value in controls if (control := Control.from_bytes(value)).finished]
    name, control = finished[0]
    more = replace(control, inserted=control.inserted + 2).to_bytes()
    connection.execute("UPDATE registers SET value = ? WHERE name = ? AND kind = 'partition_control'", (more, name))
    connection.commit()
    connection.close()
    copy, data = tmp_path / "copy.db", tmp_path / "data"
    for ran in (
        terminal("backup", str(copy), "--data", str(tmp_path / "left"), "--json"),
        terminal("restore", str(copy), "--data", str(data), "--json"),
    ):
        assert (ran.code, json.loads(ran.out)["unexplained"]) == (1, 2)
        assert "that have no known end by the ledger: 2. There should be none" in ran.err
    assert copy.exists()
    assert (data / DATABASE).exists()


def test_what_is_in_cassandra_is_in_no_folder(terminal: Terminal, tmp_path: Path) -> None:
    terminal.monkeypatch.setenv("TIMERD_STORE", "cassandra")
    terminal.monkeypatch.setenv("TIMERD_DATA", str(tmp_path / "data"))
    for command in ("backup", "restore"):
        ran = terminal(command, str(tmp_path / "copy.db"))
        assert (ran.code, ran.out) == (2, "")
        assert "are in Cassandra: take and bring back snapshots" in ran.err
    assert "There are no data in" in terminal("backup", str(tmp_path / "b"), "--data", str(tmp_path)).err


def test_wrong_places_are_sentences(terminal: Terminal, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    text = tmp_path / "text"
    text.write_text("no database " * 100)
    data = ("--data", str(tmp_path / "data"))
    for arguments, says in (
        (("backup", str(tmp_path / "b"), *data), "There are no data in"),
        (("restore", str(tmp_path / "absent"), *data), "There is no file"),
        (("restore", str(other), *data), "was not written by timerd"),
        (("restore", str(text), *data), "is no database"),
    ):
        ran = terminal(*arguments)
        assert (ran.code, ran.out) == (1, "")
        assert says in ran.err
        assert ran.err.count("\n") == 1
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())) == '["other.db", "text"]'
