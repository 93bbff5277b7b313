"""SIGTERM with deliveries in hand: nothing is lost, nothing comes twice, whether or not the workers finish in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Holder, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import SyncClient

pytestmark = pytest.mark.process
TASKS = 1500
IN_HAND = 150


@pytest.mark.parametrize(
    ("drain", "workers_finish"), [("10s", True), ("100ms", False)], ids=["workers-finish", "hand-over"]
)
def test_a_restart_with_deliveries_in_hand_loses_and_doubles_nothing(
    children: Children, tmp_path: Path, drain: str, workers_finish: bool
) -> None:
    server = children.own(Server(tmp_path, "--drain", drain))
    server.start()
    children.own(Holder(tmp_path, "holder", server.address, "q", (300, 1500))).start()
    log = WorkerLog(tmp_path / "holder.log")
    with SyncClient(server.address, timeout=60) as client:
        start = datetime.now(UTC) + timedelta(milliseconds=200)
        items = [(str(number), start + timedelta(milliseconds=number)) for number in range(TASKS)]
        tasks = client.schedule_many("q", items)
        until(lambda: log.in_hand >= IN_HAND, "enough deliveries are in hand")
        assert server.terminate() == 0, server.errors()
        left = log.in_hand
        assert (left == 0) is workers_finish, left
        server.start()
        until(lambda: len(log.confirmed) >= TASKS, "everything has been confirmed")
        client.schedule("q", b"9999", delay=0)
        until(lambda: 9999 in log.numbers, "the last task has arrived")
        states = {client.get(task.id).state.name for task in tasks[:: TASKS // 20]}
    assert sorted(log.numbers) == [*range(TASKS), 9999]
    assert states == {"ACKED"}
    assert [each for each in log.deliveries if each.received_ms < each.fire_at_ms] == []
