"""The page of the outbox works as it stands there: its commands, its SQL and its programs; only addresses differ."""

from __future__ import annotations

import re
import secrets
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.docs import blocks
from tests.outbox.conftest import made_mysql, made_server
from tests.outbox.mysql_server import MysqlServer
from tests.outbox.postgres_server import PostgresServer
from tests.outbox.shops import MysqlShop
from tests.process.children import Child, Server, run_cli
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import CancelOutcome, SyncClient, TaskInfo, TimerdError

pytestmark = pytest.mark.process
PAGE = "docs/use/outbox.md"
TYPED = "postgresql://app@127.0.0.1/shop"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DJANGO = """
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["timerd.contrib.django"], USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
)
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    yield from made_server()


@pytest.fixture(scope="module")
def mysql() -> Iterator[MysqlServer]:
    yield from made_mysql()


def typed(language: str) -> list[str]:
    return [text for each, text in _BLOCK.findall(blocks.read(PAGE)) if each == language]


def command(text: str, url: str, server: str = "") -> list[str]:
    program, *arguments = shlex.split(text.replace(TYPED, url).replace("127.0.0.1:7400", server))
    assert program == "timerd"
    return arguments


async def test_from_sql_to_tasks(postgres: PostgresServer, children: Children, tmp_path: Path) -> None:
    name = f"shop_{secrets.token_hex(4)}"
    admin = await asyncpg.connect(postgres.url(), timeout=30)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    init, run, _beside = typed("sh")
    assert run_cli(*command(init, postgres.url(name))).returncode == 0
    database = await asyncpg.connect(postgres.url(name), timeout=30)
    [statements] = typed("sql")
    await database.execute(statements)
    await database.close()
    server = children.own(Server(tmp_path))
    server.start()
    arguments = command(run, postgres.url(name), server.address)
    children.own(Child(["-m", "timerd.cli", *arguments], tmp_path / "relay.err")).start()
    status = ("outbox", "status", "--database", postgres.url(name))
    until(lambda: {"rows waiting  0", "on their way  0"} <= {*run_cli(*status).stdout.splitlines()}, "it is drained")
    with SyncClient(server.address) as client:
        assert client.get(key="bill-43").priority == 3
        assert client.cancel(key="bill-42") is CancelOutcome.ALREADY_CANCELLED


def drained(children: Children, folder: Path, url: str) -> TaskInfo:
    """A relay sends all rows; the task of one of them."""
    server = children.own(Server(folder))
    server.start()
    arguments = ["-m", "timerd.cli", "outbox", "run", "--database", url, "--server", server.address]
    children.own(Child(arguments, folder / "relay.err")).start()
    status = ("outbox", "status", "--database", url)
    until(lambda: {"rows waiting  0", "on their way  0"} <= {*run_cli(*status).stdout.splitlines()}, "it is drained")
    with SyncClient(server.address) as client:
        task = client.get(key="bill-43")
    assert (task.payload, task.priority) == (b"43", 3)
    return task


async def test_rows_of_mysql_become_tasks(mysql: MysqlServer, children: Children, tmp_path: Path) -> None:
    url = mysql.url(f"shop_{secrets.token_hex(4)}")
    await MysqlShop.create(url)
    assert run_cli("outbox", "init", "--database", url).returncode == 0
    shop = await MysqlShop.opened(url)
    [statements] = typed("mysql")
    for statement in statements.rstrip().removesuffix(";").split(";\n"):
        await shop.run(statement)
    await shop.close()
    drained(children, tmp_path, url)
    assert run_cli("outbox", "refused", "--database", url).stdout == "No row was refused.\n"


def test_rows_of_sqlite_become_tasks(children: Children, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    [statements] = typed("sqlite")
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE bills (id INTEGER PRIMARY KEY)")
        assert run_cli("outbox", "init", "--database", url).returncode == 0
        database.executescript(statements)
    task = drained(children, tmp_path, url)
    assert task.fire_time - datetime.now(UTC) > timedelta(days=50)
    assert run_cli("outbox", "refused", "--database", url).stdout == "No row was refused.\n"


def test_its_programs_write_into_the_outbox(children: Children, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE bills (id INTEGER PRIMARY KEY)")
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    assert run_cli("outbox", "init", "--database", url).returncode == 0
    with_sqlalchemy, with_django = typed("python")
    for program in (with_sqlalchemy, DJANGO + with_django):
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, timeout=120)
    server = children.own(Server(tmp_path))
    server.start()
    arguments = ["-m", "timerd.cli", "outbox", "run", "--database", url, "--server", server.address]
    children.own(Child(arguments, tmp_path / "relay.err")).start()
    with SyncClient(server.address) as client:

        def is_there(key: str) -> bool:
            try:
                return client.get(key=key).payload == key[-2:].encode()
            except TimerdError:
                return False

        until(lambda: is_there("bill-44") and is_there("bill-45"), "both are tasks")
        assert client.get(key="bill-44").labels == {"kind": "reminder"}
