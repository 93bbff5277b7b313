"""One PostgreSQL for all tests of the session, a database of its own for each. Without the program tests are skipped on
a laptop and fail where CI=true."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.outbox.postgres_server import PostgresServer, programs
from tests.process.conftest import children
from timerd.outbox.opening import open_outbox
from timerd.outbox.ports import OutboxStore

__all__ = ["children"]
MISSING = "PostgreSQL cannot be found: install Debian's `postgresql`, or put `postgres` on the path."


def made_server() -> Iterator[PostgresServer]:
    folder = programs()
    if folder is None and os.environ.get("CI") == "true":
        pytest.fail(f"{MISSING} With CI=true nothing is skipped.")
    if folder is None:
        pytest.skip(MISSING)
    server = PostgresServer(folder)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    yield from made_server()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """Of one test, which kills it."""
    yield from made_server()


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    name = f"shop_{secrets.token_hex(4)}"
    database = await asyncpg.connect(postgres.url(), timeout=30)
    await database.execute(f'CREATE DATABASE "{name}"')
    await database.close()
    return postgres.url(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Of an empty database."""
    path = tmp_path / "shop.db"
    path.touch()
    return f"sqlite:///{path}"


@pytest.fixture(params=["postgres_url", "sqlite_url"])
def url(request: pytest.FixtureRequest) -> str:
    """Both engines, one after the other."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def outbox(url: str) -> AsyncIterator[OutboxStore]:
    store = open_outbox(url)
    await store.make()
    yield store
    await store.close()
