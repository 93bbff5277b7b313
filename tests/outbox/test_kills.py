"""Two relays, a server and the database are killed under load; `python -m tests.outbox` does it 100 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox.kills import VICTIMS, Play
from tests.outbox.mysql_server import MysqlServer
from tests.outbox.postgres_server import PostgresServer

KILLS = 5
PAUSE_S = 0.03


@pytest.mark.process
async def test_nothing_is_lost_invented_or_doubled_by_kills(own_postgres: PostgresServer, tmp_path: Path) -> None:
    await holds(own_postgres, tmp_path)


@pytest.mark.process
async def test_so_it_is_with_mysql(own_mysql: MysqlServer, tmp_path: Path) -> None:
    await holds(own_mysql, tmp_path)


async def holds(database: PostgresServer | MysqlServer, folder: Path) -> None:
    report = await Play(database, folder, PAUSE_S).run(KILLS, 1, print)
    assert report.holds, report
    assert set(report.kills) == set(VICTIMS)
    assert min(report.counts[each] for each in ("committed", "rolled back", "moved", "cancelled")) > 0
