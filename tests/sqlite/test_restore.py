"""What is no whole copy is neither made nor restored: what says how much there is has to bring as much."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.sqlite.older import load
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.schema import APPLICATION_ID, MIGRATIONS, PAGE_BYTES
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


TABLES = (
    *("groups", "far_groups", "days", "marks", "settled", "registers", "requests", "replies"),
    *("dead_letters", "estimates", "mark_blocks", "entries"),
)


def refused(copy: Path, new: Path) -> str:
    """The sentence; nothing was made."""
    with pytest.raises(StartupError) as said:
        restore_sqlite(copy, new)
    assert not new.exists()
    return str(said.value)


def test_the_tables_below_are_all_that_there_are(copy: Path) -> None:
    with closing(sqlite3.connect(copy)) as connection:
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    assert sorted(name for (name,) in found) == sorted(TABLES)


@pytest.mark.parametrize("table", TABLES)
def test_a_copy_without_one_of_the_tables_is_none(copy: Path, tmp_path: Path, table: str) -> None:
    change(copy, f"DROP TABLE {table}")
    assert f"{copy} lacks the table {table}, which schema version {NEWEST} has" in refused(copy, tmp_path / "new")


DIFFERENT = [
    ("ALTER TABLE marks DROP COLUMN value", "lacks the column value of the table marks"),
    ("ALTER TABLE settled RENAME COLUMN crc TO sum", "lacks the column crc of the table settled"),
    ("DROP INDEX marks_by_row", "lacks the index marks_by_row"),
    ("DROP TABLE days; CREATE TABLE days (day INTEGER, scope, present, finishing, finished)", "has another column day"),
    ("DROP TABLE replies; CREATE VIEW replies AS SELECT 1", "lacks the table replies"),
    ("DROP INDEX marks_by_row; CREATE INDEX marks_by_row ON marks (scope)", "has another index marks_by_row"),
    (
        "DROP INDEX registers_by_expiry; CREATE INDEX registers_by_expiry ON registers (expires_ms)",
        "has another index registers_by_expiry",
    ),
]


@pytest.mark.parametrize(("statements", "says"), DIFFERENT, ids=[says for _, says in DIFFERENT])
def test_a_part_that_is_missing_or_another_is_named(copy: Path, tmp_path: Path, statements: str, says: str) -> None:
    for statement in statements.split(";"):
        change(copy, statement)
    assert says in refused(copy, tmp_path / "new")


def test_what_somebody_added_is_no_harm(copy: Path, tmp_path: Path) -> None:
    change(copy, "CREATE TABLE notes (x)")
    change(copy, "ALTER TABLE days ADD COLUMN note TEXT")
    assert restore_sqlite(copy, tmp_path / "new").rows


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    assert f"{empty} is empty: name one that `timerd backup` has made" in refused(empty, tmp_path / "new")


def test_a_database_of_another_program_is_not_taken(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    change(other, "CREATE TABLE groups (id)")
    says = refused(other, tmp_path / "new")
    assert f"{other} was not written by timerd: name one that `timerd backup` has made" in says
    change(other, f"PRAGMA application_id = {APPLICATION_ID}")
    change(other, f"PRAGMA user_version = {NEWEST}")
    assert "lacks the table" in refused(other, tmp_path / "new")


def test_a_half_of_a_copy_is_damaged(copy: Path, tmp_path: Path) -> None:
    whole = copy.read_bytes()
    copy.write_bytes(whole[: len(whole) // 2])
    assert "is damaged" in refused(copy, tmp_path / "new")


def test_data_that_lack_a_table_are_not_copied(tmp_path: Path) -> None:
    load(NEWEST, tmp_path / "data")
    change(tmp_path / "data" / DATABASE, "DROP TABLE requests")
    with pytest.raises(StartupError, match=f"copied from {tmp_path}/data/{DATABASE} lacks the table requests"):
        copy_of(tmp_path / "data", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
