"""The wall clock is stepped while the server runs: nothing early by its own clock, nothing lost, and it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Holder, Server, run_cli
from tests.process.clockstep import ClockStep
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import SyncClient, TimerdError
from timerd.demo.records import now_ms

pytestmark = pytest.mark.process
HOUR_MS = 3_600_000
NEAR, SOON, LATER, NEW, OLD = 1, 2, 3, 4, 5


class Site:
    """A server whose wall clock is stepped, a caller and a worker whose clocks are true."""

    def __init__(self, folder: Path, children: Children, stable: str) -> None:
        self.clock = ClockStep(folder)
        options = ("--clock-stable", stable)
        self.server = children.own(Server(folder, *options, environment=self.clock.environment))
        self.server.start()
        holder = children.own(Holder(folder, "worker", self.server.address, "q", (0, 0)))
        holder.start()
        self.log = WorkerLog(folder / "worker.log")
        self.client = SyncClient(self.server.address, timeout=30)
        self.schedule(NEAR, 1_000)
        self.schedule(SOON, HOUR_MS // 2)
        self.schedule(LATER, 3 * HOUR_MS)

    def schedule(self, number: int, ahead_ms: int) -> None:
        self.client.schedule("q", str(number), at=datetime.now(UTC) + timedelta(milliseconds=ahead_ms))

    def is_trusted(self) -> bool:
        return self.client.server_info().clock_trusted

    def arrived_between(self, begin_ms: float, end_ms: float) -> list[int]:
        return [each.number for each in self.log.deliveries if begin_ms <= each.received_ms <= end_ms]

    def step(self, offset_ms: int) -> float:
        """Returns an instant from which on the server does not trust its clock."""
        self.clock.set(offset_ms)
        until(lambda: not self.is_trusted(), "the server has noticed the step")
        return now_ms()

    def last_red_ms(self) -> float:
        """Waits until the clock is trusted again; the last instant before the last look that said it is not."""
        looked_ms = [now_ms()]

        def is_trusted() -> bool:
            before_ms = now_ms()
            trusted = self.is_trusted()
            if not trusted:
                looked_ms.append(before_ms)
            return trusted

        until(is_trusted, "the server trusts its clock again")
        return looked_ms[-1]


StartSite = Callable[[str], Site]


@pytest.fixture
def start_site(tmp_path: Path, children: Children) -> Iterator[StartSite]:
    sites: list[Site] = []

    def start(stable: str) -> Site:
        sites.append(Site(tmp_path, children, stable))
        return sites[-1]

    yield start
    for site in sites:
        site.client.close()


def test_a_step_forward_fires_nothing_until_the_clock_is_stable_and_then_goes_by_it(start_site: StartSite) -> None:
    site = start_site("3s")
    red_ms = site.step(HOUR_MS)
    with (
        SyncClient(site.server.address, timeout=0.5) as impatient,
        pytest.raises(TimerdError, match="wall clock jumped"),
    ):
        impatient.schedule("q", b"0", delay=1)
    said = run_cli("doctor", "--server", site.server.address)
    assert said.returncode == 1
    assert "clock is not trusted" in said.stdout + said.stderr
    assert site.arrived_between(red_ms, site.last_red_ms()) == []
    until(lambda: {NEAR, SOON} <= set(site.log.numbers), "what is due by the new clock has arrived")
    site.schedule(NEW, HOUR_MS + 200)
    until(lambda: NEW in site.log.numbers, "it goes on")
    assert sorted(site.log.numbers) == [NEAR, SOON, NEW]
    assert [each for each in site.log.deliveries if each.received_ms + HOUR_MS < each.fire_at_ms] == []


def test_a_step_back_fires_nothing_until_the_clock_is_right_again(start_site: StartSite) -> None:
    site = start_site("30s")
    red_ms = site.step(-HOUR_MS)
    until(lambda: now_ms() > red_ms + 1_500, "the near task is due")
    site.clock.set(0)
    assert site.arrived_between(red_ms, site.last_red_ms()) == []
    site.schedule(NEW, 200)
    until(lambda: {NEAR, NEW} <= set(site.log.numbers), "it goes on")
    assert sorted(site.log.numbers) == [NEAR, NEW]
    assert [each for each in site.log.deliveries if each.received_ms < each.fire_at_ms] == []


def test_after_a_small_step_back_time_stands_still_until_the_clock_has_caught_up(start_site: StartSite) -> None:
    site = start_site("500ms")
    red_ms = site.step(-2_500)
    assert site.arrived_between(red_ms, site.last_red_ms()) == []
    site.schedule(NEW, -2_300)
    until(lambda: {NEAR, NEW} <= set(site.log.numbers), "it goes on")
    assert sorted(site.log.numbers) == [NEAR, NEW]
    assert [each for each in site.log.deliveries if each.received_ms - 2_500 < each.fire_at_ms] == []


def test_a_restart_goes_by_a_clock_that_was_set_back_an_hour(start_site: StartSite) -> None:
    """What was due in an hour that comes again is not early, and what is scheduled in that hour does fire."""
    site = start_site("500ms")
    until(lambda: NEAR in site.log.numbers, "the near task has arrived before")
    site.schedule(OLD, 3_000)
    site.step(-HOUR_MS)
    site.server.kill()
    site.server.start()
    site.schedule(NEW, 300 - HOUR_MS)
    until(lambda: NEW in site.log.numbers, "what is due in the hour that came again has arrived")
    assert sorted(site.log.numbers) == [NEAR, NEW]
    arrived = {each.number: each for each in site.log.deliveries}
    assert arrived[NEW].received_ms - HOUR_MS >= arrived[NEW].fire_at_ms
    site.step(0)
    until(lambda: OLD in site.log.numbers, "what was due before the step back has arrived")
    assert sorted(site.log.numbers) == [NEAR, NEW, OLD]
