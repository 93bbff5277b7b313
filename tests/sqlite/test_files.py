"""The data directory: private, owned by one process, and refused with a sentence where it is not ours."""

from __future__ import annotations

import fcntl
import inspect
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.conftest import Bench
from timerd.adapters.sqlite.files import DataDirectory, sync
from timerd.adapters.sqlite.schema import connect
from timerd.adapters.sqlite.store import SqliteStore
from timerd.config import ServerConfig
from timerd.model.errors import StartupError
from timerd.testing.contracts.build import key, message, scan


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
async def test_only_the_owner_reads_the_data_whatever_the_umask(bench: Bench, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = bench.open()
        await store.append([message("a", key("a"))])
    finally:
        os.umask(before)
    assert mode(bench.path) == 0o700
    files = {file.name: mode(file) for file in bench.path.iterdir()}
    assert {"timerd.db", "timerd.db-wal", "timerd.db-shm", "timerd.lock"} <= set(files)
    assert set(files.values()) == {0o600}


def test_a_directory_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    DataDirectory(tmp_path).close()
    assert mode(tmp_path) == 0o750


def test_a_second_store_is_refused_and_told_who_has_the_data(bench: Bench) -> None:
    bench.open()
    with pytest.raises(StartupError, match=f"in use by the process with pid {os.getpid()}"):
        bench.open()


def test_another_process_is_refused_until_the_holder_is_gone(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from timerd.adapters.sqlite.files import DataDirectory; " + (
        "held = DataDirectory(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StartupError, match=f"pid {holder.pid}"):
            DataDirectory(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    DataDirectory(tmp_path).close()


def test_a_path_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StartupError, match=r"The data directory .* cannot be used: .*--data"):
            SqliteStore(path, lambda: 0)


def test_a_file_that_is_no_database_is_refused_and_left_alone(bench: Bench) -> None:
    bench.path.mkdir()
    (bench.path / "timerd.db").write_text("something else entirely\n" * 100)
    for _ in range(2):
        with pytest.raises(StartupError, match="cannot be opened as a database"):
            bench.open()
    assert (bench.path / "timerd.db").read_text().startswith("something else")


def test_a_database_of_another_program_is_refused(bench: Bench) -> None:
    bench.path.mkdir()
    connection = sqlite3.connect(bench.path / "timerd.db")
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    with pytest.raises(StartupError, match="another program"):
        bench.open()


async def test_a_newer_schema_is_refused(bench: Bench) -> None:
    bench.open()
    await bench.close()
    bench.query("PRAGMA user_version = 999")
    with pytest.raises(StartupError, match=r"newer timerd \(schema version 999"):
        bench.open()


async def test_data_without_one_of_their_tables_are_refused_before_anything_is_written(bench: Bench) -> None:
    bench.open()
    await bench.close()
    bench.query("DROP TABLE requests")
    with pytest.raises(StartupError, match=r"lacks the table requests, .*: restore a copy of it"):
        bench.open()
    assert bench.query("SELECT count(*) FROM sqlite_schema WHERE name = 'requests'") == [(0,)]


def test_an_unknown_durability_is_refused(bench: Bench) -> None:
    with pytest.raises(StartupError, match="must be full or normal"):
        bench.open("off")


@pytest.mark.parametrize(("level", "pragma"), [("full", 2), ("normal", 1)])
async def test_the_level_in_force_is_named(bench: Bench, level: str, pragma: int) -> None:
    store = bench.open(level)
    seen = await store._write(lambda commit: commit.connection.execute("PRAGMA synchronous").fetchone())
    facts = await store.facts()
    assert seen == (pragma,)
    assert f"synchronous={level.upper()}" in facts.durability
    assert facts.used_bytes > 0
    assert facts.free_bytes > 0


def test_without_a_word_the_level_is_full() -> None:
    assert ServerConfig().synchronous == "full"
    assert inspect.signature(SqliteStore).parameters["synchronous"].default == "full"


async def test_everything_is_there_after_a_restart(bench: Bench) -> None:
    store = bench.open("full")
    await store.append([message("a", key("a", 5))])
    store = await bench.reopen()
    assert (await scan(store)).keys == [key("a", 5)]
    (again,) = await store.append([message("a", key("a", 5))])
    assert again.repeated == b"stored"
    (appended,) = await store.append([message("b", key("b", 6))])
    assert all(name > 1 for name in appended.sources.values())


def test_the_disk_is_asked_to_write_in_the_words_of_its_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of macOS, where an fsync leaves data in the disk's own memory."""
    with closing(connect(tmp_path / "timerd.db", "full")) as connection:
        assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda _, word: asked.append(word))
    monkeypatch.setattr(os, "fsync", lambda _: asked.append(0))
    sync(3)
    monkeypatch.delattr(fcntl, "F_FULLFSYNC")
    sync(3)
    assert asked == [51, 0]
