"""The SQL that `timerd cycles sql --dialect mysql` prints, on a real MariaDB: it has the hashes of Python."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pymysql
import pytest

from tests.outbox.conftest import NO_MYSQL
from tests.outbox.mysql_server import MysqlServer, program
from timerd.commands.cycles import sql
from timerd.core.slots import SPACE, Key, hash_of, slot_range

RANDOM = random.Random(6)
INTEGERS: list[Key] = [0, -1, -(2**63), 2**63 - 1, *(RANDOM.randrange(-(2**63), 2**63) for _ in range(2_000))]
UUIDS: list[Key] = [str(UUID(int=RANDOM.getrandbits(128), version=4)) for _ in range(2_000)]
TEXTS: list[Key] = ["zoë", "a\\b", "\\x41", "it's", "日本", *(f"member-{n}" for n in range(100))]
# PyMySQL has no types.
Connection = Any
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    found = program()
    if found is None:
        pytest.skip(NO_MYSQL)
    server = MysqlServer(found)
    try:
        server.make()
        server.start()
        made = pymysql.connect(host="127.0.0.1", port=server.port, user="app", charset="utf8mb4")
        with made, made.cursor() as cursor:
            cursor.execute("CREATE DATABASE slots CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
            cursor.execute("USE slots")
            yield made
    finally:
        server.stop()


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Its statements."""
    sql("mysql")
    return [each.strip() for each in capsys.readouterr().out.split(";") if each.strip()]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("bigint", INTEGERS), ("char(36)", UUIDS), ("uuid", UUIDS), ("varchar(256)", TEXTS)],
    ids=["int", "char", "uuid", "text"],
)
def test_mariadb_has_the_same_hashes(
    connection: Connection, kind: str, keys: list[Key], capsys: pytest.CaptureFixture[str]
) -> None:
    *made, select = printed(capsys)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS account")
        if kind == "uuid" and not _has_uuids(cursor):
            pytest.skip("This server has no type UUID: MariaDB has it from 10.7 on")
        cursor.execute(f"CREATE TABLE account (n int AUTO_INCREMENT PRIMARY KEY, id {kind} NOT NULL)")
        for statement in made:
            cursor.execute(statement.replace("SHA2(id", "SHA2(RTRIM(id)") if kind == "char(36)" else statement)
        cursor.executemany("INSERT INTO account (id) VALUES (%s)", [(key,) for key in keys])
        cursor.execute("SELECT slot_hash FROM account ORDER BY n")
        assert [found for (found,) in cursor.fetchall()] == [hash_of(key) - SPACE // 2 for key in keys]
        lo, hi = slot_range(3, 7).signed
        cursor.execute(re.sub(r":(lo|hi)", r"%(\1)s", select), {"lo": lo, "hi": hi})
        inside = [key for key in keys if lo <= hash_of(key) - SPACE // 2 <= hi]
        assert sorted(map(str, (key for (key,) in cursor.fetchall()))) == sorted(map(str, inside))


def _has_uuids(cursor: Connection) -> bool:
    cursor.execute("SELECT VERSION()")
    [version] = cursor.fetchone() or [""]
    return "MariaDB" in version and tuple(map(int, version.split("-")[0].split("."))) >= (10, 7)
