"""One PostgreSQL and one MariaDB for all tests of the session, a database of its own for each. Without the program, or
its driver, tests are skipped on a laptop and fail where CI=true."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

from tests.outbox.mysql_server import MysqlServer, program
from tests.outbox.postgres_server import PostgresServer, programs
from tests.outbox.shops import MysqlShop, PostgresShop
from tests.process.conftest import children
from timerd.outbox.opening import open_outbox
from timerd.outbox.ports import OutboxStore

__all__ = ["children"]
Server = TypeVar("Server", PostgresServer, MysqlServer)
MISSING = "PostgreSQL cannot be found: install Debian's `postgresql`, or put `postgres` on the path."
NO_MYSQL = "MariaDB cannot be found: install Debian's `mariadb-server`, or put `mariadbd` or `mysqld` on the path."
NO_DRIVER = "PyMySQL cannot be found: install timerd with its extra `mysql`."


def missing(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} With CI=true nothing is skipped.")
    pytest.skip(what)


def made_server() -> Iterator[PostgresServer]:
    yield from run(PostgresServer(programs() or missing(MISSING)))


def made_mysql() -> Iterator[MysqlServer]:
    server = program() or missing(NO_MYSQL)
    if importlib.util.find_spec("pymysql") is None:
        missing(NO_DRIVER)
    yield from run(MysqlServer(server))


def run(server: Server) -> Iterator[Server]:
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


@pytest.fixture(scope="session")
def mysql() -> Iterator[MysqlServer]:
    yield from made_mysql()


@pytest.fixture
def own_mysql() -> Iterator[MysqlServer]:
    """Of one test, which kills it."""
    yield from made_mysql()


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    url = postgres.url(f"shop_{secrets.token_hex(4)}")
    await PostgresShop.create(url)
    return url


@pytest.fixture
async def mysql_url(mysql: MysqlServer) -> str:
    """Of an empty database."""
    url = mysql.url(f"shop_{secrets.token_hex(4)}")
    await MysqlShop.create(url)
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Of an empty database."""
    path = tmp_path / "shop.db"
    path.touch()
    return f"sqlite:///{path}"


@pytest.fixture(params=["postgres_url", "mysql_url", "sqlite_url"])
def url(request: pytest.FixtureRequest) -> str:
    """All engines, one after the other."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
async def outbox(url: str) -> AsyncIterator[OutboxStore]:
    store = open_outbox(url)
    await store.make()
    yield store
    await store.close()
