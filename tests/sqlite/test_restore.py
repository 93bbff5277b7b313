"""What is no whole copy is neither made nor restored: what says how much there is has to bring as much."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.older import load
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.schema import MIGRATIONS, PAGE_BYTES
from timerd.bootstrap import back_up_sqlite, restore_sqlite
from timerd.model.errors import StartupError
from timerd.testing import Server

NEWEST = MIGRATIONS[-1].version


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    load(NEWEST, tmp_path / "data")
    file = tmp_path / "copy.db"
    copy_of(tmp_path / "data", file)
    return file


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(statement)
        connection.commit()


async def test_the_file_of_a_server_is_not_restored_without_its_log(tmp_path: Path) -> None:
    async with Server(data=tmp_path / "data") as server:
        await server.client().schedule("mails", b"x", delay=3_600)
        with pytest.raises(StartupError, match=r"timerd.db-wal beside it.*timerd backup"):
            restore_sqlite(tmp_path / "data" / DATABASE, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def copy_of(data: Path, target: Path) -> None:
    back_up_sqlite(data, target, lambda _done, _whole: None)


def test_a_disk_without_room_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    load(NEWEST, tmp_path / "data")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * PAGE_BYTES, hard))
    try:
        with pytest.raises(StartupError, match=r"could not be copied .* nothing was left there: is there room\?"):
            copy_of(tmp_path / "data", tmp_path / "copy.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_damage_is_said_of_the_data_and_not_of_the_copy(tmp_path: Path) -> None:
    load(NEWEST, tmp_path / "data")
    change(tmp_path / "data" / DATABASE, "UPDATE groups SET payloads = x'00'")
    with pytest.raises(StartupError, match=f"What was copied from {tmp_path}/data/{DATABASE} is damaged"):
        copy_of(tmp_path / "data", tmp_path / "copy.db")


def test_a_file_without_a_version_is_not_one_of_ours(copy: Path, tmp_path: Path) -> None:
    change(copy, "PRAGMA user_version = 0")
    with pytest.raises(StartupError, match="was not written by timerd"):
        restore_sqlite(copy, tmp_path / "new")


def test_a_spoilt_control_row_is_damage(copy: Path, tmp_path: Path) -> None:
    change(copy, "UPDATE registers SET value = x'00ff' WHERE kind = 'partition_control'")
    with pytest.raises(StartupError, match=r"is damaged .the control row .* cannot be read.: use another copy"):
        restore_sqlite(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()
