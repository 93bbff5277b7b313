"""SIGTERM with deliveries in hand: nothing is lost and nothing comes twice, whether or not the workers finish in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient
from timerd.demo.records import Confirmed, Delivery, LogReader, Logs

pytestmark = pytest.mark.process
TASKS = 1500
IN_HAND = 150


class Log:
    """What the worker has written so far."""

    def __init__(self, path: Path) -> None:
        self._reader = LogReader(path)
        self.deliveries: list[Delivery] = []
        self.confirmed: list[Confirmed] = []

    def look(self) -> Logs:
        for record in self._reader.read():
            if isinstance(record, Delivery):
                self.deliveries.append(record)
            elif isinstance(record, Confirmed):
                self.confirmed.append(record)
        return Logs(deliveries=tuple(self.deliveries), confirmed=tuple(self.confirmed))

    def in_hand(self) -> int:
        logs = self.look()
        return len(logs.deliveries) - len(logs.confirmed)


@pytest.mark.parametrize(
    ("drain", "workers_finish"), [("10s", True), ("100ms", False)], ids=["workers-finish", "hand-over"]
)
def test_a_restart_with_deliveries_in_hand_loses_and_doubles_nothing(
    children: Children, tmp_path: Path, drain: str, workers_finish: bool
) -> None:
    server = children.own(Server(tmp_path, "--drain", drain))
    server.start()
    arguments = ["-m", "tests.process.kill9.holder", server.address, "q", str(tmp_path / "holder.log")]
    children.own(Child([*arguments, "--hold-ms", "300", "1500"], tmp_path / "holder.err")).start()
    log = Log(tmp_path / "holder.log")
    with SyncClient(server.address, timeout=60) as client:
        start = datetime.now(UTC) + timedelta(milliseconds=200)
        items = [(str(number), start + timedelta(milliseconds=number)) for number in range(TASKS)]
        tasks = client.schedule_many("q", items)
        until(lambda: log.in_hand() >= IN_HAND, "enough deliveries are in hand")
        assert server.terminate() == 0, server.errors()
        left = log.in_hand()
        assert (left == 0) is workers_finish, left
        server.start()
        until(lambda: len(log.look().confirmed) >= TASKS, "everything has been confirmed")
        client.schedule("q", b"9999", delay=0)
        until(lambda: any(each.number == 9999 for each in log.look().deliveries), "the last task has arrived")
        states = {client.get(task.id).state.name for task in tasks[:: TASKS // 20]}
    logs = log.look()
    assert sorted(each.number for each in logs.deliveries) == [*range(TASKS), 9999]
    assert states == {"ACKED"}
    assert [each for each in logs.deliveries if each.received_ms < each.fire_at_ms] == []
