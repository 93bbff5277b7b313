"""A program's own workers and typed tasks run on a test server: what is due is handled when the clock is turned."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

import timerd.testing
from timerd.client import Client, InvalidTask, SyncClient, TaskState
from timerd.tasks import Tasks
from timerd.testing import Server, SyncServer
from timerd.worker import Delivery, Reject, Worker

# Nobody listens there: who called it would wait.
AWAY = "127.0.0.1:1"
HOUR = timedelta(hours=1)


@pytest.fixture
def server() -> Iterator[SyncServer]:
    with timerd.testing.server() as running:
        yield running


class Program:
    """A program with a worker of its own, whose address is that of production."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.worker = Worker(AWAY)
        self.worker.on("mails")(self.mail)
        self.worker.on("calls")(self.call)
        self.worker.on_batch("readings", max_size=10)(self.read)

    async def mail(self, delivery: Delivery) -> None:
        self.got.append(delivery.payload)

    def call(self, delivery: Delivery) -> None:
        self.got.append(delivery.payload)

    def read(self, deliveries: list[Delivery]) -> None:
        self.got += [delivery.payload for delivery in deliveries]


def test_what_is_due_is_handled_when_the_clock_has_been_turned(server: SyncServer) -> None:
    program = Program()
    for queue in ("mails", "calls", "readings"):
        server.client.schedule(queue, queue, delay=HOUR)
    with server.working(program.worker):
        server.advance(minutes=59)
        assert program.got == []
        server.advance(minutes=1)
        assert sorted(program.got) == [b"calls", b"mails", b"readings"]
    assert [server.scheduled(queue) for queue in ("mails", "calls", "readings")] == [[], [], []]


def test_the_queues_of_a_pool_share_its_slots_on_a_test_server_as_well(server: SyncServer) -> None:
    worker, at_once, most = Worker(AWAY), set[str](), list[int]()
    pool = worker.pool("convert", slots=1)

    @pool.on("pdf")
    def pdf(delivery: Delivery) -> None:
        at_once.add(delivery.task_id)
        most.append(len(at_once))
        at_once.remove(delivery.task_id)

    pool.on("excel")(pdf)
    for queue in ("pdf", "excel") * 5:
        server.client.schedule(queue, b"x", delay=1)
    for _ in range(2):
        with server.working(worker):
            server.advance(seconds=2)
    assert most == [1] * 10


def test_a_handler_that_is_slow_in_real_time_is_waited_for(server: SyncServer) -> None:
    worker, go_on, ended = Worker(AWAY), threading.Event(), []

    @worker.on("mails")
    def slow(delivery: Delivery) -> None:
        threading.Timer(0.2, go_on.set).start()
        go_on.wait()
        ended.append(delivery.payload)

    with server.working(worker):
        server.client.schedule("mails", b"hello", delay=0)
        server.settle()
        assert ended == [b"hello"]


def test_a_worker_runs_on_one_server_after_the_other(server: SyncServer) -> None:
    """As those of a module do, from test to test."""
    program = Program()
    for round_ in (b"1", b"2"):
        with server.working(program.worker):
            server.client.schedule("mails", round_, delay=HOUR)
            server.advance(hours=1)
    with timerd.testing.server() as other, other.working(program.worker):
        other.client.schedule("mails", b"3", delay=HOUR)
        other.advance(hours=1)
    assert program.got == [b"1", b"2", b"3"]


def test_what_is_due_at_the_end_of_the_block_is_handled_and_nothing_after_it(server: SyncServer) -> None:
    program = Program()
    with server.working(program.worker):
        server.client.schedule("mails", b"within", delay=0)
    server.client.schedule("mails", b"after", delay=1)
    server.advance(hours=1)
    assert program.got == [b"within"]
    assert [task.payload for task in server.scheduled("mails")] == [b"after"]


def test_what_fails_in_the_block_is_what_the_test_says(server: SyncServer) -> None:
    program = Program()
    with pytest.raises(KeyError, match="of the test"), server.working(program.worker):
        raise KeyError("of the test")
    server.advance(hours=1)


def test_a_handler_that_fails_is_tried_again_and_what_it_said_can_be_seen(server: SyncServer) -> None:
    worker, attempts = Worker(AWAY), []

    @worker.on("mails")
    def send(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.payload == b"nonsense":
            raise Reject("no such address")
        if delivery.attempt < 2:
            raise RuntimeError("the mail server is away")

    with server.working(worker):
        server.client.schedule("mails", b"hello", delay=0)
        server.settle()
        [task] = server.scheduled("mails")
        assert (task.state, task.attempt) == (TaskState.RETRYING, 1)
        assert "the mail server is away" in task.last_error
        server.advance(hours=1)
        assert (attempts, server.scheduled("mails")) == ([1, 2], [])
        server.client.schedule("mails", b"nonsense", delay=0)
        server.settle()
    assert [letter.task.payload for letter in server.client.dead_letters("mails")] == [b"nonsense"]


def test_schedules_that_a_worker_declares_come(server: SyncServer) -> None:
    worker, came = Worker(AWAY), []

    @worker.scheduled("report", cron="0 9 * * *", zone="Europe/Berlin")
    async def report(delivery: Delivery) -> None:
        assert delivery.occurrence is not None
        came.append(delivery.occurrence.instant)

    with server.working(worker):
        server.advance(days=2)
    assert came == [datetime(2030, 1, day, 8, tzinfo=UTC) for day in (1, 2)]


def test_typed_tasks_run_and_are_scheduled_here(server: SyncServer) -> None:
    tasks, got = Tasks(), []

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)
        if user < 3:
            await remind.schedule(user=user + 1, delay=HOUR)

    with server.working(tasks):
        server.run(remind.schedule(user=1, delay=HOUR))
        server.advance(hours=2)
        assert got == [1, 2]
        server.advance(hours=1)
        assert got == [1, 2, 3]
    with pytest.raises(InvalidTask, match="no client"):
        server.run(remind.schedule(user=1, delay=HOUR))


def test_typed_tasks_are_scheduled_by_coroutines_of_any_loop(server: SyncServer) -> None:
    """As those of an application are, which runs in a loop of its own."""
    tasks, got = Tasks(), []

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)

    async def app() -> None:
        await remind.schedule(user=1, delay=HOUR)
        await remind.schedule_many([({"user": 2}, HOUR)])

    with server.working(tasks):
        asyncio.run(app())
        server.advance(hours=1)
    assert sorted(got) == [1, 2]


def test_typed_tasks_of_a_worker_go_back_to_their_own_client(server: SyncServer) -> None:
    own = Client(AWAY, namespace="shop")
    tasks, got, worker = Tasks(own), [], Worker(AWAY, namespace="shop")

    @tasks.task("reminders")
    def remind(user: int) -> None:
        got.append(user)

    worker.include(tasks)
    with server.working(worker):
        server.run(remind.schedule(user=7, delay=HOUR))
        assert [task.payload for task in server.scheduled("reminders", namespace="shop")] == [b'{"user":7}']
        server.advance(hours=1)
    assert got == [7]
    with tasks.bound(own):
        pass
    assert tasks._client is own


def test_a_handler_schedules_by_a_client_of_its_own(server: SyncServer) -> None:
    worker, got = Worker(AWAY), []

    @worker.on("orders")
    def order(delivery: Delivery) -> None:
        with SyncClient(server.connect_options) as own:
            own.schedule("mails", delivery.payload, delay=HOUR)

    @worker.on("mails")
    def mail(delivery: Delivery) -> None:
        got.append((delivery.payload, server.now))

    begun = server.now
    with server.working(worker):
        server.client.schedule("orders", b"7", delay=HOUR)
        server.advance(hours=3)
    assert got == [(b"7", begun + 2 * HOUR)]


def test_several_programs_work_at_once(server: SyncServer) -> None:
    program, tasks, got = Program(), Tasks(), []

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)

    with server.working(program.worker, tasks), server.working(Program().worker):
        server.run(remind.schedule(user=7, delay=1))
        server.client.schedule("mails", b"hello", delay=1)
        server.advance(seconds=1)
    assert got == [7]


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_a_handler_that_turns_the_clock_is_told_so(server: SyncServer, kind: str) -> None:
    worker = Worker(AWAY)

    def turn(delivery: Delivery) -> None:
        server.advance(hours=1)

    async def turn_in_the_loop(delivery: Delivery) -> None:
        server.advance(hours=1)

    worker.on("mails")(turn if kind == "plain" else turn_in_the_loop)
    with server.working(worker):
        server.client.schedule("mails", b"hello", delay=0)
        server.settle()
    [task] = server.scheduled("mails")
    assert (
        "A handler cannot turn the clock, which waits for the handler to end: turn it in the test." in task.last_error
    )


def test_a_coroutine_handler_that_calls_without_await_is_told_so(server: SyncServer) -> None:
    worker = Worker(AWAY)

    @worker.on("mails")
    async def again(delivery: Delivery) -> None:
        server.client.schedule("mails", b"again", delay=HOUR)

    with server.working(worker):
        server.client.schedule("mails", b"hello", delay=0)
    [task] = server.scheduled("mails")
    assert "This call would wait for itself" in task.last_error
    assert "a coroutine handler on a test server" in task.last_error


def test_what_cannot_work_is_refused(server: SyncServer) -> None:
    with pytest.raises(InvalidTask, match="This worker has no handlers"), server.working(Worker(AWAY)):
        pass
    wrong = pytest.raises(TypeError, match=r"Give a `timerd.Worker` or a `timerd.tasks.Tasks`, not 7")
    with wrong, server.working(7):  # type: ignore[arg-type]
        pass
    server.close()
    with pytest.raises(RuntimeError, match="This server is closed"), server.working(Program().worker):
        pass


async def test_a_worker_that_runs_already_is_refused() -> None:
    program = Program()
    async with Server() as server:
        real, test = Worker(server.connect_options), server.worker()
        for worker in (real, test):
            worker.on("mails")(program.mail)
        running = asyncio.create_task(real.run())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="runs already, on a server of its own"):
            async with server.working(real):
                pass
        async with server.working(test):
            with pytest.raises(RuntimeError, match="This worker runs already"):
                await test.start()
        await real.stop()
        await running


async def test_it_is_the_same_for_asyncio() -> None:
    tasks, got, program = Tasks(), [], Program()

    @tasks.task("reminders")
    async def remind(user: int) -> None:
        got.append(user)

    async with Server() as server, server.working(program.worker, tasks):
        await remind.schedule(user=7, delay=HOUR)
        await server.client().schedule("calls", b"hello", delay=HOUR)
        await server.advance(hours=1)
        assert (got, program.got) == ([7], [b"hello"])
