"""G1: the power is cut, and the disk has only what was synced. What was acknowledged is there, what was cancelled or
whose ack was confirmed does not come again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Holder, Server
from tests.process.conftest import Children
from tests.process.powercut import PowerCut
from tests.process.waiting import eventually, until
from tests.process.worker_log import WorkerLog
from timerd.client import CancelOutcome, Client, NotFound, Task, TimerdError
from timerd.demo.records import now_ms

pytestmark = pytest.mark.process
CUTS, LANES, STORED_A_CUT = 3, 8, 40
AHEAD_MS = (20, 80, 400, 1_500, 3_600_000)
LONG_MS = 60_000
CANCELLED_EACH = 7


class Load:
    """Callers that schedule and cancel without an end. `stored` and `cancelled`: what they were told, with the instant
    of that for what was cancelled."""

    def __init__(self) -> None:
        self.stored: dict[int, tuple[Task, int]] = {}
        self.cancelled: dict[int, float] = {}
        self._asked = 0

    async def ask(self, client: Client) -> None:
        while True:
            self._asked += 1
            number = self._asked
            ahead_ms = AHEAD_MS[number % len(AHEAD_MS)]
            try:
                at = datetime.now(UTC) + timedelta(milliseconds=ahead_ms)
                task = await client.schedule("q", str(number), at=at)
                self.stored[number] = task, ahead_ms
                if number % CANCELLED_EACH == 0 and await client.cancel(task.id) is CancelOutcome.CANCELLED:
                    self.cancelled[number] = now_ms()
            except TimerdError:
                # Nobody knows what became of it, so nothing is asked of it.
                await asyncio.sleep(0.01)

    @property
    def must_arrive(self) -> set[int]:
        return {n for n, (_, ahead) in self.stored.items() if ahead < LONG_MS and n % CANCELLED_EACH}


@pytest.fixture
def cut(tmp_path: Path) -> PowerCut:
    return PowerCut(tmp_path, tmp_path / "data")


async def lost(client: Client, load: Load) -> list[int]:
    gone = []
    for number, (task, _) in load.stored.items():
        try:
            await client.get(task.id)
        except NotFound:
            gone.append(number)
    return gone


async def play(load: Load, server: Server, log: WorkerLog) -> None:
    """Until enough is stored, cancelled and acknowledged since the last cut."""
    stored, confirmed = len(load.stored) + STORED_A_CUT, len(log.confirmed) + STORED_A_CUT // 4
    async with Client(server.address) as client:
        lanes = [asyncio.create_task(load.ask(client)) for _ in range(LANES)]

        async def is_enough() -> bool:
            return len(load.stored) >= stored and len(log.confirmed) >= confirmed

        await eventually(is_enough, "enough is stored and acknowledged")
        server.kill()
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


async def test_a_power_cut_takes_nothing_that_was_acknowledged(
    tmp_path: Path, children: Children, cut: PowerCut
) -> None:
    server = children.own(Server(tmp_path, environment=cut.environment))
    server.start()
    children.own(Holder(tmp_path, "worker", server.address, "q", (0, 20))).start()
    load, log = Load(), WorkerLog(tmp_path / "worker.log")
    for _ in range(CUTS):
        await play(load, server, log)
        cut.lose_what_is_not_synced()
        server.start()
        async with Client(server.address) as client:
            assert await lost(client, load) == []
    must = load.must_arrive
    until(lambda: must <= set(log.numbers), "what was acknowledged arrives")
    came_late = [d for d in log.deliveries if d.received_ms > load.cancelled.get(d.number, float("inf"))]
    assert came_late == [], "delivered after CANCELLED"
    confirmed_ms = {c.delivery_id: c.confirmed_ms for c in log.confirmed}
    again = [d for d in log.deliveries if d.received_ms > confirmed_ms.get(d.delivery_id, float("inf"))]
    assert again == [], "delivered after its ack was confirmed"
    assert load.cancelled
