"""Calls at one instance of tasks that another one holds: whoever ends them tells where they are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from timerd.client import Client, TaskState
from timerd.model import codec
from timerd.model.identity import TaskId
from timerd.services.calls import task_ends
from timerd.services.peers import shared_ends
from timerd.services.peers.peers import Peers
from timerd.services.peers.shared_ends import SharedEnds
from timerd.testing import Cluster
from timerd.worker import Delivery

CALLS = 6
FAR_S = 3_600


@pytest.fixture
def only_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not told would look much later."""
    monkeypatch.setattr(task_ends, "FIRST_LOOK_S", 600.0)


async def answers(cluster: Cluster, name: str) -> None:
    worker = cluster.worker(name)

    @worker.on("sums")
    async def double(delivery: Delivery) -> bytes:
        return delivery.payload * 2

    await worker.start()


async def until_waiting(cluster: Cluster, name: str) -> None:
    while not cluster.instances[name].node.server.api.ends.waiting:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


@pytest.mark.usefixtures("only_heard")
async def test_whoever_ends_the_task_tells_where_it_is_waited_for() -> None:
    async with Cluster("a", "b", "c") as cluster:
        await answers(cluster, "a")
        async with asyncio.timeout(25):
            for n in range(CALLS):
                caller = cluster.client("abc"[n % 3])
                assert await caller.call("sums", b"%d" % n, timeout=600) == b"%d%d" % (n, n)


@pytest.mark.usefixtures("only_heard")
async def test_a_cancel_is_told_too() -> None:
    async with Cluster("a", "b") as cluster:
        task = await cluster.client("a").schedule("nobody", b"x", delay=FAR_S)
        waiting = asyncio.create_task(cluster.client("b").wait(task.id))
        await until_waiting(cluster, "b")
        async with asyncio.timeout(120):
            while not cluster.instances["a"].node.server.api.ends._others.is_asked:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            await cluster.client("a").cancel(task.id)
            assert (await waiting).state is TaskState.CANCELLED


async def test_what_is_told_to_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message about it is lost."""

    async def lost(*_: object) -> None:
        """Nobody hears of it."""

    def lost_too(*_: object) -> None:
        """As above."""

    monkeypatch.setattr(Peers, "ask_for_ends", lost)
    monkeypatch.setattr(Peers, "tell_ends", lost_too)
    async with Cluster("a", "b") as cluster:
        await answers(cluster, "a")
        assert [await each.call("sums", b"1", timeout=600) for each in _clients(cluster)] == [b"11"] * 2


def _clients(cluster: Cluster) -> Sequence[Client]:
    return [cluster.client("a"), cluster.client("b")]


async def test_an_instance_of_an_older_release_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    async def notes(_: Peers, address: str, *__: object) -> None:
        asked.append(address)

    monkeypatch.setattr(Peers, "ask_for_ends", notes)
    async with Cluster("a") as cluster:
        with monkeypatch.context() as older:
            older.setattr(codec, "CAPABILITIES", codec.CAPABILITIES - {codec.TELLS_ENDS})
            await cluster.add("b")
        await cluster.advance(seconds=5)
        await answers(cluster, "a")
        assert await cluster.client("a").call("sums", b"1", timeout=600) == b"11"
    assert asked == []


class Members:
    """Two instances that know each other."""

    name = "a"

    def live(self) -> tuple[str, ...]:
        return ("a", "b")

    def announced(self) -> dict[str, frozenset[str]]:
        return dict.fromkeys(self.live(), codec.CAPABILITIES)

    def address_of(self, name: str) -> str:
        return f"{name}:7400"


class Told:
    """In the place of the calls to others: what they were told."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, list[bytes]]] = []

    def tell_ends(self, address: str, digests: list[bytes]) -> None:
        self.ends.append((address, digests))


TASK = TaskId(0, 0, 0, 0, b"p" * 12, 1, b"m" * 8).digest


async def test_who_has_asked_is_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of an attempt may be none of its task. What was asked long ago is not told."""
    told = Told()
    shared = SharedEnds(told, Members())  # type: ignore[arg-type]
    shared.asked("b", [TASK])
    for _ in range(2):
        shared.tell([TASK, b"another"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert told.ends == [("b:7400", [TASK])] * 2
    monkeypatch.setattr(shared_ends, "ASK_COUNTS_S", 0.0)
    shared.tell([TASK])
    await asyncio.sleep(0)
    assert len(told.ends) == 2
    assert not shared.is_asked
