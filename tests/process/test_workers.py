"""Workers and servers that die with deliveries in hand."""

from __future__ import annotations

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.process.children import Holder, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import RetryPolicy, SyncClient

pytestmark = pytest.mark.process
TASKS = 1000
HELD = 300
FOR_EVER = (3_000_000, 3_000_000)


def schedule_now(address: str, tasks: int) -> None:
    with SyncClient(address) as client:
        now = datetime.now(UTC)
        client.schedule_many("q", [(str(number), now) for number in range(tasks)])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "left-without-a-word"])
def test_what_a_dead_worker_held_goes_to_the_other(
    server: Server, children: Children, tmp_path: Path, how: signal.Signals
) -> None:
    """Long before the lease of 30 s would have ended, and nothing else with it."""
    dying = children.own(Holder(tmp_path, "dying", server.address, "q", FOR_EVER))
    living = children.own(Holder(tmp_path, "living", server.address, "q", (0, 50)))
    dying.start()
    living.start()
    first, second = WorkerLog(tmp_path / "dying.log"), WorkerLog(tmp_path / "living.log")
    schedule_now(server.address, TASKS)
    until(lambda: len(first.deliveries) + len(second.deliveries) == TASKS, "everything has been delivered once")
    held = set(first.numbers)
    assert len(held) >= 100, "both workers take their share"
    until(lambda: not second.in_hand, "the other worker has finished its share")
    assert held.isdisjoint(second.numbers)
    dying.signal(how)
    until(lambda: len(second.deliveries) >= TASKS, "what was held has gone to the other", patience_s=20)
    until(lambda: not second.in_hand, "all is confirmed")
    assert sorted(second.numbers) == list(range(TASKS))
    again = {each.number: each for each in second.deliveries if each.number in held}
    before = {each.number: each for each in first.deliveries}
    assert {n: each.delivery_id for n, each in again.items()} == {n: each.delivery_id for n, each in before.items()}
    with SyncClient(server.address) as client:
        assert client.server_info().in_flight == 0
        assert client.server_info().ledger.dead == 0


def test_a_worker_that_comes_back_after_a_kill_of_the_server_gets_nothing_twice(
    server: Server, children: Children, tmp_path: Path
) -> None:
    """It names what it has in hand when it opens its next stream; the server knows of it from nowhere else."""
    worker = children.own(Holder(tmp_path, "worker", server.address, "q", (1000, 3000)))
    worker.start()
    log = WorkerLog(tmp_path / "worker.log")
    schedule_now(server.address, HELD)
    until(lambda: log.in_hand >= HELD * 9 // 10, "nearly everything is in hand")
    server.kill()
    server.start()
    until(lambda: len(log.confirmed) >= HELD, "everything is confirmed")
    schedule_now(server.address, 1)
    until(lambda: len(log.deliveries) > HELD, "the next task has arrived")
    assert sorted(log.numbers) == sorted([0, *range(HELD)])


def test_a_crash_of_server_and_worker_uses_up_no_attempt(server: Server, children: Children, tmp_path: Path) -> None:
    """Nothing on disk says that the delivery began, so the next one has its number: here the only one that there is."""
    dying = children.own(Holder(tmp_path, "dying", server.address, "q", FOR_EVER))
    dying.start()
    first, second = WorkerLog(tmp_path / "dying.log"), WorkerLog(tmp_path / "living.log")
    with SyncClient(server.address) as client:
        task = client.schedule("q", b"0", delay=0, retry=RetryPolicy(max_attempts=1))
    until(lambda: first.in_hand == 1, "it is in hand")
    server.kill()
    dying.kill()
    server.start()
    children.own(Holder(tmp_path, "living", server.address, "q", (0, 50))).start()
    until(lambda: len(second.confirmed) == 1, "the other worker has finished it")
    assert [(each.attempt, each.task_id) for each in (*first.deliveries, *second.deliveries)] == [(1, task.id)] * 2
