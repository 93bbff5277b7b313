"""The contract of delivery as it is shipped, and with each extension. What wires one is a line of bootstrap."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.extensions.contract import HELD, DeliveryContract, World, schedule
from tests.extensions.every_second import HOLD_MS, EverySecond
from tests.extensions.ten_a_second import BURST, EACH_MS, TenASecond
from timerd import bootstrap
from timerd.core.taken import QueueKey


class TestAsShipped(DeliveryContract):
    """The sink is the extension here: it appends to a file (tests/extensions/file_sink.py)."""

    slack_s = 1.0

    async def test_all_of_it_comes_at_its_instant(self, world: World) -> None:
        names = await schedule(self.client, HELD, range(60), 2)
        await world.turn(2)
        assert sorted(world.payloads()) == sorted(names)


class TestWithAGate(DeliveryContract):
    """It holds back every second row of all queues."""

    @pytest.fixture(autouse=True)
    def wired(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bootstrap, "GATES", (EverySecond,))

    def is_prompt(self, at_s: dict[bytes, float | None]) -> bool:
        """Five at their instant; the others are held in turn, as the gate says."""
        return sorted(at_s.values(), key=str) == [2.2] * 5 + [None] * 5

    async def test_every_second_one_comes_late_by_so_much(self, world: World) -> None:
        await schedule(self.client, HELD, range(10), 2)
        await world.turn(10)
        assert [at_s for _, at_s in world.came] == [2.0] * 5 + [2.0 + HOLD_MS / 1_000] * 5


class TestWithALimit(DeliveryContract):
    """Ten a second of one queue."""

    @pytest.fixture(autouse=True)
    def wired(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bootstrap, "LIMITS", (lambda: TenASecond(QueueKey("default", HELD)),))

    async def test_a_burst_goes_and_the_rest_at_the_rate(self, world: World) -> None:
        names = await schedule(self.client, HELD, range(40), 2)
        await world.turn(10)
        times = [at_s for _, at_s in world.came]
        assert (len(times), times[:BURST]) == (len(names), [2.0] * BURST)
        assert [round((b - a) * 1_000) for a, b in pairwise(times[BURST - 1 :])] == [EACH_MS] * (len(names) - BURST)
