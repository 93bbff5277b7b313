"""Damaged data: nothing altered is delivered, everything else is, and the operator is told in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.children import Holder, Server, run_cli
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import SyncClient, TimerdError

pytestmark = pytest.mark.process
GOOD = 3
SPOILT = b"471100004711000047110000"
PAGE_BYTES = 8192


def write_over(file: Path, at: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)


def test_a_flipped_byte_is_found_and_told_and_the_other_tasks_go_on(
    server: Server, tmp_path: Path, children: Children
) -> None:
    with SyncClient(server.address) as client:
        spoilt = client.schedule("q", SPOILT, delay=0.1)
        for number in range(GOOD):
            client.schedule("q", b"%d" % number, delay=0.1)
    server.terminate()
    database = server.data / "timerd.db"
    at = database.read_bytes().index(SPOILT)
    write_over(database, at, b"9")
    server.start()
    worker = children.own(Holder(tmp_path, "worker", server.address, "q", (0, 0)))
    worker.start()
    log = WorkerLog(tmp_path / "worker.log")
    until(lambda: sorted(log.numbers) == list(range(GOOD)), "the other tasks arrive")
    with SyncClient(server.address) as client:
        with pytest.raises(TimerdError, match="does not match its checksum") as told:
            client.get(spoilt.id)
        assert told.value.code == "DATA_LOSS"
        assert client.schedule("q", b"17", delay=0.1).id
    until(lambda: 17 in log.numbers, "new tasks arrive as well")
    doctor = run_cli("doctor", "--server", server.address)
    assert doctor.returncode == 1
    assert "do not match their checksum. What it holds is not delivered; everything else is." in doctor.stdout
    assert "restore a backup or schedule those tasks again" in doctor.stdout
    assert "do not match their checksum. What it holds is not delivered" in server.errors()
    assert not {int(SPOILT), int(b"9" + SPOILT[1:])} & set(log.numbers)


def test_a_damaged_page_is_told_by_doctor(server: Server) -> None:
    """A page of SQLite itself, below our checksums: here the first one of each table that has tasks."""
    with SyncClient(server.address) as client:
        task = client.schedule("q", b"x", delay=600)
    server.terminate()
    database = server.data / "timerd.db"
    pages = root_pages(database)
    write_over(database, (pages["groups"] - 1) * PAGE_BYTES, b"\xff" * 8)
    server.start()
    with SyncClient(server.address, timeout=2) as client, pytest.raises(TimerdError) as told:
        client.get(task.id)
    assert (told.value.code, told.value.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE")
    doctor = run_cli("doctor", "--server", server.address)
    assert doctor.returncode == 1
    assert "A page of the database file is damaged" in doctor.stdout
    assert "Traceback" not in server.errors()


def root_pages(database: Path) -> dict[str, int]:
    import sqlite3

    connection = sqlite3.connect(database)
    try:
        return dict(connection.execute("SELECT name, rootpage FROM sqlite_master"))
    finally:
        connection.close()


@pytest.mark.parametrize("at", [0, 100])
def test_a_file_that_is_damaged_at_its_head_is_refused(server: Server, at: int) -> None:
    server.terminate()
    write_over(server.data / "timerd.db", at, b"\xff" * 16)
    done = run_cli("serve", "--data", str(server.data), "--listen", "127.0.0.1:0")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot be opened as a database" in done.stderr
    assert "Restore it from a copy" in done.stderr
