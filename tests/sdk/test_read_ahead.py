"""A lane of single calls asks for more while its handlers are faster than messages, and for less when they are not."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.fake_server import FakeServer, deliver_of, split
from tests.sdk.worker_rig import ACK, running
from timerd import Delivery, Worker
from timerd.sdk.working.read_ahead import ReadAhead
from timerd.v1 import work_service_pb2 as wk

FAST = 200


def shown_fast(concurrency: int) -> ReadAhead:
    credit = ReadAhead(concurrency)
    for _ in range(FAST):
        credit.ran(0.0)
    return credit


def test_it_begins_with_what_its_handlers_take() -> None:
    credit = ReadAhead(16)
    assert (credit.tasks, credit.ran(0.0), credit.tasks) == (16, 0, 16)


def test_a_fast_handler_gets_a_thousand_on_top() -> None:
    assert shown_fast(16).tasks == 1_016
    assert shown_fast(1).tasks == 1_001


def test_a_handler_gets_what_it_takes_in_20_ms() -> None:
    credit = ReadAhead(10)
    for _ in range(500):
        credit.ran(0.001)
    # A growth of less than a quarter is not worth a message.
    assert 10 + 200 / 1.25 <= credit.tasks <= 10 + 200


def test_one_that_takes_longer_gets_nothing_on_top() -> None:
    credit = ReadAhead(10)
    assert {credit.ran(0.02) for _ in range(500)} == {0}
    assert credit.tasks == 10


def test_what_was_given_on_top_is_given_back_as_tasks_end() -> None:
    credit = shown_fast(16)
    changes = [credit.ran(60.0) for _ in range(1_001)]
    assert changes == [-1] * 1_000 + [0]
    assert credit.tasks == 16


def test_one_that_has_become_slow_shows_anew_that_it_is_fast() -> None:
    credit = shown_fast(16)
    credit.restart()
    assert (credit.tasks, credit.ran(0.0)) == (16, 0)
    assert shown_fast(16).tasks == 1_016


@given(st.integers(1, 2_000), st.lists(st.none() | st.floats(0, 100), max_size=200))
def test_it_stays_between_its_bounds(concurrency: int, calls: list[float | None]) -> None:
    """None: what was read ahead has waited too long."""
    credit = ReadAhead(concurrency)
    for took_s in calls:
        before = credit.tasks
        if took_s is None:
            credit.restart()
        else:
            change = credit.ran(took_s)
            assert change >= -1
            assert credit.tasks == before + change
        assert concurrency <= credit.tasks <= concurrency + 1_000


class Gated:
    """A worker whose handler returns at once, until it is held up."""

    def __init__(self, server: FakeServer, concurrency: int) -> None:
        self.worker = Worker(server.target)
        self.go = asyncio.Event()
        self.go.set()
        # As many have begun as may.
        self.full = asyncio.Event()
        self.begun: list[bytes] = []
        self._concurrency = concurrency
        self.at_once = self.most_at_once = 0
        self.worker.on("q", concurrency=concurrency)(self.handle)

    async def handle(self, delivery: Delivery) -> None:
        self.begun.append(delivery.payload)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.at_once == self._concurrency:
            self.full.set()
        await self.go.wait()
        self.at_once -= 1

    async def fill(self, server: FakeServer, payload: bytes, count: int) -> None:
        """So many come that do not end, and as many have begun as may."""
        self.go.clear()
        self.full.clear()
        server.work.put(deliver_of("q", [payload] * count))
        await self.full.wait()


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers take no time, however slow the machine is."""
    monkeypatch.setattr("timerd.sdk.working.time_limits.monotonic", lambda: 0.0)


async def become_fast(server: FakeServer, concurrency: int) -> None:
    for _ in range(FAST):
        server.work.put(deliver_of("q", [b"quick"]))
    await server.work.until(lambda: server.work.credit["q"] == concurrency + 1_000)


@pytest.mark.usefixtures("no_time")
async def test_what_is_read_ahead_has_not_begun(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=3)
    async with running(gated.worker):
        await become_fast(server, 3)
        await gated.fill(server, b"slow", 500)
        server.work.put(deliver_of("q", [b"slower"] * 400))
        gated.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == FAST + 900)
    assert gated.most_at_once == 3
    assert gated.begun == [b"quick"] * FAST + [b"slow"] * 500 + [b"slower"] * 400, "in the order in which it came"


@pytest.mark.usefixtures("no_time")
async def test_what_ends_shares_a_message_while_enough_waits_for_handlers(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acks that can wait do so longer than a test: so the first message has all until half of the credit waits no
    more."""
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=1)
    async with running(gated.worker):
        await become_fast(server, 1)
        monkeypatch.setattr("timerd.sdk.working.work_stream._ACKS_EVERY_S", 3_600.0)
        await gated.fill(server, b"slow", 1_001)
        await gated.worker._stream.sync()  # type: ignore[union-attr]
        before = len(server.work.settles)
        gated.go.set()
        await server.work.until(lambda: len(server.work.settles) > before)
        first = server.work.settles[before]
    assert len(split(first.ack_tokens)) >= 500
    assert [credit.tasks for credit in first.credits] == [len(split(first.ack_tokens))]


@pytest.mark.usefixtures("no_time")
async def test_what_was_read_ahead_goes_back_when_handlers_become_slow(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 0.01)
    gated = Gated(server, concurrency=3)
    async with running(gated.worker):
        await become_fast(server, 3)
        await gated.fill(server, b"slow", 500)
        await server.work.until(lambda: len(server.work.released) == 497)
        # With what went back the credit is void; the one that is given anew has nothing on top.
        server.work.put(deliver_of("q", [b"later"] * 3))
        gated.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == FAST + 6)
        assert server.work.credit["q"] == 3
    assert gated.begun[FAST:] == [b"slow"] * 3 + [b"later"] * 3


@pytest.mark.usefixtures("no_time")
async def test_what_was_read_ahead_is_handed_back_at_the_stop(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=3)
    async with running(gated.worker):
        await become_fast(server, 3)
        await gated.fill(server, b"slow", 100)
        asyncio.get_running_loop().call_later(0.05, gated.go.set)
    assert (len(server.work.released), len(server.work.tokens(ACK))) == (97, FAST + 3)


@pytest.mark.usefixtures("no_time")
async def test_what_another_worker_has_by_now_is_not_begun(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=1)
    async with running(gated.worker):
        await become_fast(server, 1)
        gated.go.clear()
        gated.full.clear()
        deliver = deliver_of("q", [b"first", b"lost", b"last"])
        server.work.put(deliver)
        await gated.full.wait()
        server.work.lost = split(deliver.ack_tokens)[1]
        server.work.break_streams()
        await server.work.until(lambda: len(server.work.opens) == 2)
        await gated.worker._stream.sync()  # type: ignore[union-attr]
        gated.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == FAST + 2)
    assert gated.begun[FAST:] == [b"first", b"last"]


@pytest.mark.usefixtures("no_time")
async def test_a_worker_that_runs_once_more_begins_anew(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first run was cut off, with tasks that had not begun."""
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=3)
    run = asyncio.create_task(gated.worker.run())
    await become_fast(server, 3)
    await gated.fill(server, b"slow", 500)
    run.cancel()
    await asyncio.wait([run])
    gated.go.set()
    opened = len(server.work.opens)
    async with running(gated.worker):
        await server.work.until(lambda: len(server.work.opens) == opened + 1)
    assert [credit.tasks for credit in server.work.opens[-1].credits] == [3]


@pytest.mark.usefixtures("no_time")
async def test_what_came_beyond_what_a_lane_wants_frees_no_credit(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way when the lane went back to what its handlers take."""
    monkeypatch.setattr("timerd.sdk.working.lanes._LONGEST_WAIT_S", 3_600.0)
    gated = Gated(server, concurrency=3)
    lane = gated.worker._lanes["q"]
    async with running(gated.worker):
        await become_fast(server, 3)
        await gated.fill(server, b"slow", 8)
        lane.hand_back()
        lane._credit.restart()  # type: ignore[attr-defined]
        server.work.say(wk.WorkResponse(deliver=deliver_of("q", [b"late"] * 10)))
        await gated.worker._stream.sync()  # type: ignore[union-attr]
        assert lane.held == 13
        gated.go.set()
        await server.work.until(lambda: len(server.work.tokens(ACK)) == FAST + 13)
        await gated.worker._stream.sync()  # type: ignore[union-attr]
        assert server.work.credit["q"] == lane.credit == 3
