"""One server after the other on the same data, callers and workers that live on, and their notes for the verdict."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from random import Random

from tests.process.failpoints.server import serve_forked
from tests.process.kill9.holder import Holder
from tests.process.waiting import eventually
from timerd.client import CancelOutcome, Client, RetryPolicy, Task
from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.processes import free_port
from timerd.demo.records import CallRecord, CallVerb, Confirmed, DeliveryRecord, Kill, Logs, LogWriter, Record, now_ms
from timerd.demo.story import stories_of
from timerd.demo.verdict import judge
from timerd.worker import Delivery as Received
from timerd.worker import Worker

QUEUE, FAILING = "tasks", "failing"
_PATIENCE_S = 30.0
_LEASE_MS = 30_000
# What must not come gets its chance.
_MORE_MS = 100
_RETRY = RetryPolicy(initial_backoff=timedelta(milliseconds=50), jitter=0)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.process.failpoints.server"])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _said(ready: Connection) -> bool:
    """Whether it became ready; a process that has ended closed its side."""
    try:
        return ready.poll(_PATIENCE_S) and bool(ready.recv())
    except EOFError:
        return False


def moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


class Notes(LogWriter):
    """A log in memory, by the clock of the servers, which may be ahead of ours."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.ahead_ms = 0.0

    def now_ms(self) -> float:
        return now_ms() + self.ahead_ms

    def write(self, records: Iterable[Record]) -> None:
        for each in records:
            if isinstance(each, DeliveryRecord):
                self.records.append(replace(each, received_ms=each.received_ms + self.ahead_ms))
            elif isinstance(each, Confirmed):
                self.records.append(replace(each, confirmed_ms=each.confirmed_ms + self.ahead_ms))
            else:
                self.records.append(each)

    @property
    def calls(self) -> list[CallRecord]:
        return [each for each in self.records if isinstance(each, CallRecord)]

    @property
    def deliveries(self) -> list[DeliveryRecord]:
        return [each for each in self.records if isinstance(each, DeliveryRecord)]

    @property
    def confirmed(self) -> list[Confirmed]:
        return [each for each in self.records if isinstance(each, Confirmed)]


class Rig:
    """`options` go to every server; `hold_ms`: how long the worker of QUEUE keeps a delivery."""

    def __init__(self, folder: Path, *options: str, hold_ms: tuple[int, int] = (0, 30)) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.data = folder / "data"
        self.notes = Notes()
        self.kills: list[Kill] = []
        self.tasks: dict[int, Task] = {}
        self._options = options
        self._hold_ms = hold_ms
        self._errors = folder / "server.err"
        self._process: ForkServerProcess | None = None
        # What the worker of FAILING has done.
        self._badly_worked: set[int] = set()
        self._working: list[asyncio.Task[None]] = []
        self.client = Client(self.address, timeout=_PATIENCE_S)

    async def __aenter__(self) -> Rig:
        return self

    async def __aexit__(self, *_: object) -> None:
        for working in self._working:
            working.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await self.client.close()
        await self.kill()

    # -- the server -----------------------------------------------------------------------------------------------

    async def start(self, at: str = "", ahead_s: float = 0.0) -> None:
        """One that ends at its point may do so before it is ready."""
        self.notes.ahead_ms = ahead_s * 1000
        arguments = ["--data", str(self.data), "--listen", self.address, "--ahead-s", str(ahead_s), *self._options]
        ours, theirs = _FORKS.Pipe(duplex=False)
        at_point = ["--at", at] if at else []
        process = _FORKS.Process(target=serve_forked, args=([*arguments, *at_point], theirs, str(self._errors)))
        self._process = process
        process.start()
        theirs.close()
        with ours:
            said = await asyncio.to_thread(_said, ours)
        assert said or at, f"the server did not start: {self._said_wrong()}"

    def _said_wrong(self) -> str:
        return self._errors.read_text()[-2000:] if self._errors.exists() else "nothing"

    async def fails(self) -> None:
        """Until it has ended itself."""
        process = self._process
        assert process is not None
        await asyncio.to_thread(process.join, _PATIENCE_S)
        killed_ms = self.notes.now_ms()
        assert process.exitcode == -signal.SIGKILL, f"exit code {process.exitcode}; it said: {self._said_wrong()}"
        self.kills.append(Kill(killed_ms, killed_ms))

    async def comes_back(self, ahead_s: float = 0.0) -> None:
        await self.start(ahead_s=ahead_s)
        self.kills[-1] = replace(self.kills[-1], ready_ms=self.notes.now_ms())

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.join, _PATIENCE_S)

    async def is_killed(self, at: str = "", ahead_s: float = 0.0) -> None:
        """From outside, and the next one starts; with a point, that one fails."""
        self.kills.append(Kill(self.notes.now_ms(), 0))
        await self.kill()
        await self.start(at, ahead_s)
        self.kills[-1] = replace(self.kills[-1], ready_ms=self.notes.now_ms())
        if at:
            await self.fails()

    def terminate(self) -> None:
        assert self._process is not None
        self._process.terminate()

    # -- workers --------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Takes what is due, acknowledges, notes confirmations."""
        holder = Holder(self.address, QUEUE, self.notes, Random(1), self._hold_ms, _LEASE_MS)
        self._working.append(asyncio.create_task(holder.run()))

    def work_badly(self, failure: Callable[[Received], Awaitable[None]]) -> None:
        """With the SDK, for the queue FAILING."""
        worker = Worker(self.address)

        @worker.on(FAILING)
        async def note(delivery: Received) -> None:
            received = (delivery.task_id, delivery.delivery_id, delivery.attempt, delivery.fire_at_ms, now_ms())
            self.notes.write([DeliveryRecord(int(delivery.payload), *received)])
            await failure(delivery)
            self._badly_worked.add(int(delivery.payload))

        self._working.append(asyncio.create_task(worker.run()))

    # -- callers --------------------------------------------------------------------------------------------------

    async def schedule(self, numbers: Sequence[int], first_ms: int, step_ms: int = 10, queue: str = QUEUE) -> None:
        """In one message."""
        asked_ms = self.notes.now_ms()
        items = [(str(n), moment(first_ms + step_ms * at)) for at, n in enumerate(numbers)]
        tasks = await self.client.schedule_many(queue, items, retry=_RETRY)
        for number, task in zip(numbers, tasks, strict=True):
            self._note("schedule", number, asked_ms, task.outcome.name.replace("STORED", "OK"), task, task.fire_at_ms)

    async def schedule_one(self, number: int, at_ms: int, request_id: str, key: str | None = None) -> None:
        asked_ms = self.notes.now_ms()
        task = await self.client.schedule(QUEUE, str(number), at=moment(at_ms), request_id=request_id, key=key)
        self._note("schedule", number, asked_ms, task.outcome.name.replace("STORED", "OK"), task, task.fire_at_ms)

    async def cancel(self, number: int, request_id: str) -> CancelOutcome:
        asked_ms, task = self.notes.now_ms(), self.tasks[number]
        outcome = await self.client.cancel(task.id, request_id=request_id)
        self._note("cancel", number, asked_ms, outcome.name, task, 0)
        return outcome

    async def move(self, number: int, at_ms: int, request_id: str) -> None:
        asked_ms, task = self.notes.now_ms(), self.tasks[number]
        moved = await self.client.reschedule(task.id, at=moment(at_ms), request_id=request_id)
        assert moved == moment(at_ms)
        self._note("move", number, asked_ms, "OK", task, at_ms)

    def _note(self, verb: CallVerb, number: int, asked_ms: float, outcome: str, task: Task, fire_at_ms: int) -> None:
        self.tasks[number] = task
        self.notes.write([CallRecord(verb, number, asked_ms, self.notes.now_ms(), outcome, task.id, fire_at_ms)])

    # -- the end --------------------------------------------------------------------------------------------------

    async def judged(self, *, by_ms: float = float("inf")) -> list[DeliveryRecord]:
        """Waits until everything has come that must, of what is due `by_ms`, and what the worker of QUEUE has is
        confirmed; then the verdict on that. Returns what came."""
        stories = stories_of(self.notes.calls).values()
        due = {story.number for story in stories if story.earliest_ms <= by_ms}
        must = {story.number for story in stories if story.must_arrive} & due
        last_ms = max(story.earliest_ms for story in stories if story.number in due) + _MORE_MS

        async def is_over() -> bool:
            confirmed = {each.delivery_id for each in self.notes.confirmed}
            ended = {each.number for each in self.notes.deliveries if each.delivery_id in confirmed}
            return must <= ended | self._badly_worked and self.notes.now_ms() > last_ms

        await eventually(is_over, "everything has arrived and is confirmed", _PATIENCE_S)
        notes = self.notes
        calls = tuple(call for call in notes.calls if call.number in due)
        logs = Logs(calls, tuple(notes.deliveries), tuple(notes.confirmed), tuple(self.kills))
        excused = forgotten_by_a_crash(logs)
        kept = tuple(each for each in logs.deliveries if each not in excused)
        broken = {kind: found for kind, found in judge(replace(logs, deliveries=kept)).violations.items() if found}
        assert broken == {}, logs
        return list(logs.deliveries)
