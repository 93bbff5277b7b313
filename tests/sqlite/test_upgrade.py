"""The way to a newer schema and back, with data that each older version left: nothing of them is lost on either way.

The step to the next version is made up here. It stands for those to come: it changes a table that is in use and adds
one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.sqlite.older import AHEAD, LEFT, VERSIONS, load
from timerd.adapters.sqlite import backup, schema, store
from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.schema import MIGRATIONS, Migration
from timerd.bootstrap import back_up_sqlite, restore_sqlite
from timerd.client import TaskState
from timerd.commands.backup import unexplained
from timerd.model.backup_contents import BackupContents
from timerd.model.errors import StartupError
from timerd.testing import Server
from timerd.worker import Delivery

NEWEST = MIGRATIONS[-1].version
NEXT = (
    *MIGRATIONS,
    Migration(NEWEST + 1, "ALTER TABLE marks ADD COLUMN note TEXT NOT NULL DEFAULT 'old'; CREATE TABLE extra (x)"),
)


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The program is of the next version until `undo`."""
    monkeypatch.setattr(store, "migrate", partial(schema.migrate, migrations=NEXT))
    monkeypatch.setattr(backup, "MIGRATIONS", NEXT)
    return monkeypatch


def version_of(data: Path) -> int:
    with closing(sqlite3.connect(data / DATABASE)) as connection:
        return schema.version_made(connection)


@contextmanager
def program_of(version: int) -> Iterator[None]:
    """The program knows no later version of the schema."""
    with pytest.MonkeyPatch.context() as patch:
        known = MIGRATIONS[:version]
        patch.setattr(store, "migrate", partial(schema.migrate, migrations=known))
        patch.setattr(store, "MIGRATIONS", known)
        patch.setattr(backup, "MIGRATIONS", known)
        yield


def copied(data: Path, file: Path) -> BackupContents:
    return back_up_sqlite(data, file, lambda _done, _whole: None)


async def check_all_is_there(data: Path) -> None:
    """What had ended has ended so; what was ahead comes, once, in its time; the dead letter lives again."""
    async with Server(data=data, start=LEFT) as server:
        client, worker = server.client(), server.worker()
        came: Counter[tuple[str, bytes]] = Counter()

        @worker.on("mails")
        @worker.on("news")
        async def handle(delivery: Delivery) -> None:
            came[delivery.queue, delivery.payload] += 1

        assert (await client.get(key="done")).state is TaskState.ACKED
        assert (await client.get(key="cancelled")).state is TaskState.CANCELLED
        [letter] = [each async for each in client.dead_letters(queue="mails")]
        assert (letter.task.payload, letter.last_error) == (b"bad", "no such address")
        await worker.start()
        await server.advance(days=41)
        assert came == Counter(AHEAD)
        await client.redrive([letter.task.id])
        await server.settle()
        assert came["mails", b"bad"] == 1
        facts = await server.node.engine.facts()
        assert facts.ledger["unexplained"] == 0


def test_data_of_each_version_are_kept() -> None:
    assert sorted(int(path.stem) for path in VERSIONS.glob("*.sql")) == [each.version for each in MIGRATIONS]


@pytest.mark.parametrize("version", [each.version for each in MIGRATIONS])
async def test_data_of_a_version_are_those_of_today(version: int, tmp_path: Path) -> None:
    load(version, tmp_path / "data")
    await check_all_is_there(tmp_path / "data")
    assert version_of(tmp_path / "data") == NEWEST


@pytest.mark.usefixtures("upgraded")
async def test_the_next_version_takes_them_over(tmp_path: Path) -> None:
    load(NEWEST, tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as connection:
        before = connection.execute("SELECT count(*) FROM marks").fetchone()[0]
    assert before
    await (server := Server(data=tmp_path / "data", start=LEFT)).start()
    await server.stop()
    with closing(sqlite3.connect(tmp_path / "data" / DATABASE)) as connection:
        assert connection.execute("SELECT count(*) FROM marks WHERE note = 'old'").fetchone()[0] == before
    assert version_of(tmp_path / "data") == NEWEST + 1


@pytest.mark.parametrize("version", [each.version for each in MIGRATIONS if each.serves_since])
async def test_the_program_before_serves_what_was_only_added_to(version: int, tmp_path: Path) -> None:
    """And the way forth again is open: no step is made twice."""
    load(version - 1, tmp_path / "data")
    with program_of(version):
        await (server := Server(data=tmp_path / "data", start=LEFT)).start()
        await server.stop()
    with program_of(version - 1):
        await (server := Server(data=tmp_path / "data", start=LEFT)).start()
        await server.stop()
        made = copied(tmp_path / "data", tmp_path / "copy.db")
    assert made.schema_version == version - 1
    await check_all_is_there(tmp_path / "data")
    assert version_of(tmp_path / "data") == NEWEST


async def test_the_way_back_is_the_copy_from_before(tmp_path: Path, upgraded: pytest.MonkeyPatch) -> None:
    data, copy, again = tmp_path / "data", tmp_path / "before.db", tmp_path / "again"
    load(NEWEST, data)
    copied(data, copy)
    await (server := Server(data=data, start=LEFT)).start()
    await server.stop()
    assert version_of(data) == NEWEST + 1
    upgraded.undo()
    with pytest.raises(StartupError, match=f"newer timerd .schema version {NEWEST + 1}.*restore an older copy"):
        await Server(data=data, start=LEFT).start()
    with pytest.raises(StartupError, match=f"newer timerd .schema version {NEWEST + 1}.*use that version"):
        copied(data, tmp_path / "late.db")
    restore_sqlite(copy, again)
    await check_all_is_there(again)


@pytest.mark.usefixtures("upgraded")
def test_a_copy_of_an_older_version_can_be_restored_by_a_newer_one(tmp_path: Path) -> None:
    load(NEWEST, tmp_path / "data")
    made = copied(tmp_path / "data", tmp_path / "copy.db")
    found = restore_sqlite(tmp_path / "copy.db", tmp_path / "new")
    assert (made.schema_version, found.schema_version) == (NEWEST, NEWEST)
    assert found.rows == made.rows > len(AHEAD)
    assert unexplained(found) == 0
