"""An error that nobody foresaw, in each kind of work that a partition asks for: it is seen, and everything comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, get_args
from unittest.mock import patch

import pytest

from tests.fundamentals.conftest import Inbox, ledger
from timerd.client import Client, TaskState
from timerd.core.partition.effects import Effect, FailMove, ReadPage
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.identity import RowKey, parse_task_id
from timerd.model.partition import bucket_of
from timerd.model.registers import Move, MoveState, Place, move_key
from timerd.model.storage import Cas, CasStatus
from timerd.services.background import unforeseen
from timerd.services.health.health_board import SCHEDULER
from timerd.services.holding import tries
from timerd.services.holding.tries import MOST_TRIES
from timerd.services.work.work_stream import WorkStream
from timerd.testing import Server
from timerd.worker import Delivery, Retry

pytestmark = pytest.mark.unforeseen
KINDS = get_args(Effect)


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """Pauses are of real time."""
    with patch.object(tries, "FIRST_S", 0.001):
        yield


class Failing:
    """The effects of one kind fail so many times, before they have done anything."""

    def __init__(self, server: Server, kind: type[Effect], times: int = 1) -> None:
        self.left = times
        self.met = 0
        handlers: dict[type[Effect], Any] = server.node.scheduler.effect_runner._handlers
        self._perform = handlers[kind]
        handlers[kind] = self

    async def __call__(self, machine: PartitionMachine, effect: Effect) -> None:
        self.met += 1
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("nobody foresaw this")
        await self._perform(machine, effect)


async def abandoned(server: Server, task_id: str) -> None:
    """A mover has announced where the task goes, and is gone."""
    task = parse_task_id(task_id)
    assert task is not None
    home = Place(task.home, RowKey(task.position_ms, task.digest, 0))
    target = Place(task.home, RowKey(task.position_ms + 1, task.digest, 1 << 8))
    move = Move(1, MoveState.MOVING, home, target, "lost", target.key.position_ms, target.key.position_ms)
    [result] = await server.node.store.cas([Cas(move_key(task.digest), None, move.to_bytes())])
    assert result.status is CasStatus.APPLIED
    machine = server.node.scheduler.machines[task.home]
    machine.suspend(task.digest)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_an_error_in_an_effect_is_seen_and_the_effect_tried_again(
    server: Server, client: Client, inbox: Inbox, kind: type[Effect], caplog: pytest.LogCaptureFixture
) -> None:
    """The story has each of them: a retry, a move, a move that nobody decides, a bucket's end."""
    failing, before = Failing(server, kind), unforeseen[kind.__name__]
    failures = [Retry(timedelta(seconds=30))]

    async def fails(_: Delivery) -> None:
        if failures:
            raise failures.pop()

    inbox.after = fails
    await inbox.works("mails")
    tasks = [await client.schedule("mails", b"%d" % n, delay=60 + 30 * n) for n in range(3)]
    await server.advance(seconds=1)
    await client.reschedule(tasks[1].id, delay=200)
    if kind is FailMove:
        await abandoned(server, tasks[2].id)
    await server.advance(hours=1)
    assert failing.met >= 2
    assert unforeseen[kind.__name__] == before + 1
    assert [r for r in caplog.records if r.exc_info and kind.__name__ in r.getMessage()]
    assert sorted(inbox.payloads) == [b"0", b"0", b"1", b"2"]
    assert all([(await client.get(task.id)).state is TaskState.ACKED for task in tasks])
    await ledger(server)


async def test_what_fails_again_and_again_is_given_up_and_acquired_anew(
    server: Server, client: Client, inbox: Inbox
) -> None:
    """The board is red meanwhile, and green when it has been done."""
    failing = Failing(server, ReadPage, MOST_TRIES + 2)
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    held, probe = server.node.scheduler.held, server.node.probe
    assert probe is not None
    told: list[str] = []
    probe.board.on_change(lambda: told.append(probe.board.wrong(SCHEDULER).get("unforeseen", "")))
    await server.advance(minutes=2)
    assert failing.met > MOST_TRIES + 2
    assert held.events.counts["given_up"] == 1
    assert inbox.payloads == [b"x"]
    assert (await client.get(task.id)).state is TaskState.ACKED
    assert [sentence for sentence in told if "ReadPage of 1 partition(s)" in sentence]
    assert probe.board.is_serving(SCHEDULER)


@pytest.mark.parametrize("fact", ["control_read", "settled_read", "page_read", "settled_written", "tick", "flush"])
async def test_a_machine_that_raises_is_given_up_at_once(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    """Nobody knows how much of the fact it has taken in. Its neighbours go on."""
    raised: list[str] = []
    original: Callable[..., Any] = getattr(PartitionMachine, fact)

    def half_way(machine: PartitionMachine, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of any fact
        answer = original(machine, *args, **kwargs)
        if not raised and machine.partition.bucket_ms == bucket_of(due_ms):
            raised.append(fact)
            raise ZeroDivisionError("nobody foresaw this")
        return answer

    due_ms = int(server.node.time.exact_ms()) + 600_000
    monkeypatch.setattr(PartitionMachine, fact, half_way)
    await inbox.works("mails")
    tasks = [await client.schedule("mails", name, delay=wait) for name, wait in ((b"a", 60), (b"b", 600), (b"c", 601))]
    await server.advance(hours=1)
    assert raised == [fact]
    assert server.node.scheduler.held.events.counts["given_up"] == 1
    assert inbox.payloads == [b"a", b"b", b"c"]
    assert all([(await client.get(task.id)).state is TaskState.ACKED for task in tasks])
    await ledger(server)


async def test_what_workers_have_of_a_partition_that_is_given_up_stays_with_them(
    server: Server, client: Client, inbox: Inbox
) -> None:
    async def works_long(_: Delivery) -> None:
        await server.sleep(minutes=2)

    inbox.after = works_long
    await inbox.works("mails")
    task = await client.schedule("mails", b"x", delay=60)
    await server.advance(seconds=61)
    [machine] = [each for each in server.node.scheduler.machines.values() if each.open_rows]
    server.node.scheduler.held.give_up(machine, "a test", ZeroDivisionError())
    await server.advance(minutes=10)
    assert inbox.attempts == [1]
    assert (await client.get(task.id)).state is TaskState.ACKED
    await ledger(server)


async def test_a_stream_whose_writer_fails_is_ended_and_its_worker_comes_again(
    server: Server, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read on without a writer, it would be sent tasks that never leave."""
    original, before = WorkStream.write_all, unforeseen["work_stream"]

    async def fails_once(stream: WorkStream) -> None:
        monkeypatch.setattr(WorkStream, "write_all", original)
        raise ZeroDivisionError("nobody foresaw this")

    monkeypatch.setattr(WorkStream, "write_all", fails_once)
    await inbox.works("mails")
    await client.schedule("mails", b"x", delay=60)
    await server.advance(minutes=2)
    assert inbox.payloads == [b"x"]
    assert unforeseen["work_stream"] == before + 1
