"""Two relays, a server and PostgreSQL are killed under load; `python -m tests.outbox` does it 100 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.outbox.kills import VICTIMS, Play
from tests.outbox.postgres_server import PostgresServer

KILLS = 5
PAUSE_S = 0.03


@pytest.mark.process
async def test_nothing_is_lost_invented_or_doubled_by_kills(own_postgres: PostgresServer, tmp_path: Path) -> None:
    report = await Play(own_postgres, tmp_path, PAUSE_S).run(KILLS, 1, print)
    assert report.holds, report
    assert set(report.kills) == set(VICTIMS)
    assert min(report.counts[each] for each in ("committed", "rolled back", "moved", "cancelled")) > 0
