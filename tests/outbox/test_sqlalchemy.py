"""The statements of `timerd.contrib.sqlalchemy` write what a row of SQL does, in the session's own transaction."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from timerd.client import InvalidTask
from timerd.contrib import sqlalchemy as outbox
from timerd.outbox.messages import rows_in
from timerd.outbox.opening import open_outbox
from timerd.outbox.rows import OutboxRow, RowVerb

AT = datetime(2030, 1, 31, 9, 0, 0, 500, tzinfo=UTC)
AT_MS = 1_896_080_400_001


async def test_what_a_session_commits_is_in_the_outbox(sqlite_url: str, tmp_path: Path) -> None:
    store = open_outbox(sqlite_url)
    await store.make()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with Session(engine) as session:
        session.execute(outbox.schedule("mails", "welcome", at=AT, key="ada", priority=3, on_conflict="keep"))
        session.execute(outbox.schedule("mails", b"plain", at=AT))
        session.execute(outbox.reschedule("bob", at=AT))
        session.execute(outbox.cancel("eve", namespace="default"))
        session.commit()
        session.execute(outbox.schedule("mails", b"never", at=AT))
        session.rollback()
    engine.dispose()
    found: list[OutboxRow] = []
    for batch in (await store.seal("one", 60.0))[0]:
        found += rows_in(batch)
    await store.close()
    options = '{"on_conflict": "keep", "priority": 3}'
    assert found == [
        OutboxRow(0, RowVerb.SCHEDULE, "default", "mails", AT_MS, "ada", b"welcome", options),
        OutboxRow(0, RowVerb.SCHEDULE, "default", "mails", AT_MS, "", b"plain", ""),
        OutboxRow(0, RowVerb.RESCHEDULE, "default", "", AT_MS, "bob", b"", ""),
        OutboxRow(0, RowVerb.CANCEL, "default", "", 0, "eve", b"", ""),
    ]


async def test_postgresql_takes_them_from_an_async_session(postgres_url: str) -> None:
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    store = open_outbox(postgres_url)
    await store.make()
    engine = create_async_engine(postgres_url.replace("postgresql:", "postgresql+asyncpg:"))
    async with AsyncSession(engine) as session:
        await session.execute(outbox.schedule("mails", b"welcome", at=AT, key="ada", labels={"team": "blue"}))
        await session.execute(outbox.reschedule("bob", at=AT))
        await session.commit()
    await engine.dispose()
    batches, _ = await store.seal("one", 60.0)
    [row] = rows_in(batches[0])
    assert (row.key, row.fire_at_ms, row.options) == ("ada", AT_MS, '{"labels": {"team": "blue"}}')
    await store.close()


def test_postgresql_s_statement_names_its_own_columns() -> None:
    statement: Any = outbox.schedule("mails", b"x", at=AT, key="a", priority=1)
    dialect: Any = postgresql
    compiled = statement.compile(dialect=dialect.dialect())
    assert str(compiled).startswith(
        "INSERT INTO timerd.outbox (verb, namespace, queue, payload, fire_at, key, options)"
    )
    assert "to_timestamp(" in str(compiled)


async def test_mysql_takes_them_from_a_session(mysql_url: str) -> None:
    store = open_outbox(mysql_url)
    await store.make()
    engine = sa.create_engine(mysql_url.replace("mysql:", "mysql+pymysql:"))
    with Session(engine) as session, session.begin():
        session.execute(outbox.schedule("mails", "welcome", at=AT, key="ada", labels={"team": "blue"}))
        session.execute(outbox.cancel("bob"))
    engine.dispose()
    batches, _ = await store.seal("one", 60.0)
    [row] = rows_in(batches[0])
    assert (row.key, row.payload, row.fire_at_ms, row.options) == (
        "ada",
        b"welcome",
        AT_MS,
        '{"labels": {"team": "blue"}}',
    )
    assert [each.verb for each in batches] == [RowVerb.SCHEDULE, RowVerb.CANCEL]
    await store.close()


def test_a_value_of_a_wrong_form_is_told_before_anything_is_written() -> None:
    with pytest.raises(InvalidTask, match="no time zone"):
        outbox.schedule("mails", b"x", at=datetime(2030, 1, 1))
    with pytest.raises(InvalidTask, match="`key` is empty"):
        outbox.cancel("")
