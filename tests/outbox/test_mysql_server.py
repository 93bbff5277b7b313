"""Several MariaDBs run at once on one machine, one for each test process."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from tests.outbox.mysql_server import MysqlServer

pytestmark = pytest.mark.process


def test_each_has_its_temporary_tables_in_a_folder_of_its_own(mysql: MysqlServer) -> None:
    """A server that starts removes all that it finds there, so in a common folder it would take another one's."""
    with pymysql.connect(host="127.0.0.1", port=mysql.port, user="app") as made, made.cursor() as cursor:
        cursor.execute("SELECT @@tmpdir")
        [(folder,)] = cursor.fetchall()
    assert Path(folder).is_relative_to(mysql.home)
