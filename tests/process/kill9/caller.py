"""A caller process: told on its standard input how much to ask for, it writes down what it asked before it asks, and
what it was answered.

`bulk N` schedules in batches, `burst N` in many concurrent single calls; a part of the tasks is cancelled or moved
later, some are moved twice, some lose their key to the next task. `end` waits for all answers.

One single call in five is made again some time after it was answered, byte for byte the same and through another
instance where there is one: it must be answered as the first time. That it changed nothing is seen by the verdict,
which knows nothing of repeats.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from timerd.client import Aborted, Client, Item, ItemOutcome, OutcomeUnknown, PartlyStored, Task, TaskState, TimerdError
from timerd.demo.callers import outcome_of
from timerd.demo.records import CallRecord, CallVerb, LogWriter, now_ms
from timerd.model.partition import BUCKET_MS, bucket_of

QUEUES = ("faults", "sdk")
_LANES = 24
_TIMEOUT_S = 60.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_SHARE = 0.2
_NEXT_BUCKET_S = 10.0
_MOVE_TRIES = 5
_REPEATED_SHARE = 0.2
# Of the single calls.
_KEYED_SHARE = 0.1
_MOVED_TWICE_SHARE = 0.5
_REPEAT_TRIES = 20


def queue_of(number: int) -> str:
    return QUEUES[number % 5 == 0]


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


class Caller:
    queues: tuple[str, ...] = QUEUES

    def __init__(
        self,
        client: Client,
        log: LogWriter,
        asked: Path,
        rng: Random,
        far_ms: int,
        first: int = 0,
        changed_percent: int = 10,
        next_bucket_percent: int = 0,
        other: Client | None = None,
        repeat_within_s: int = 10,
    ) -> None:
        """`first`: of its numbers, where there are several callers. So many percent are cancelled, so many are moved,
        and so many are for the seconds after the current bucket. `other`: repeats go by this client."""
        self._client, self._other = client, other or client
        self._repeat_within_s, self._run = repeat_within_s, f"{rng.getrandbits(48):x}"
        self.repeated = 0
        self._log = log
        self._asked = asked.open("a", encoding="utf-8")
        self._rng = rng
        self._far_ms = far_ms
        self._changed_share, self._next_bucket_share = changed_percent / 100, next_bucket_percent / 100
        self._numbers, self._calls = first, 0
        self._tasks: set[asyncio.Task[None]] = set()

    def queue_of(self, number: int) -> str:
        return queue_of(number)

    def fields_of(self, number: int) -> dict[str, Any]:
        """Of the task, beside its payload and its time."""
        return {}

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"a call failed in an unforeseen way: {error!r}", file=sys.stderr)
            asyncio.get_running_loop().stop()

    async def finish(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _begin(self) -> int:
        """Written before the call leaves: what has no end yet is unanswered."""
        self._calls += 1
        self._mark("asked", self._calls)
        return self._calls

    def _mark(self, what: str, call: int) -> None:
        self._asked.write(json.dumps({"what": what, "call": call, "at_ms": now_ms()}) + "\n")
        self._asked.flush()

    def _new(self, count: int) -> list[int]:
        self._numbers += count
        return list(range(self._numbers - count, self._numbers))

    # -- scheduling -----------------------------------------------------------------------------------------------

    async def bulk(self, count: int) -> None:
        while count > 0:
            size = min(count, self._rng.randint(20, 60))
            count -= size
            new = self._new(size)
            for queue in self.queues:
                if numbers := [number for number in new if self.queue_of(number) == queue]:
                    self.spawn(partial(self._batch, queue, numbers))

    async def _batch(self, queue: str, numbers: list[int]) -> None:
        fire_at_ms = [int(now_ms()) + self._ahead_ms(150, 700) for _ in numbers]
        items = [
            Item(str(number), at=_moment(at_ms), **self.fields_of(number))
            for number, at_ms in zip(numbers, fire_at_ms, strict=True)
        ]
        call, asked_ms = self._begin(), now_ms()
        try:
            tasks = await self._client.schedule_many(queue, items)
        except PartlyStored as error:
            tasks = error.tasks
        except TimerdError as error:
            self._mark("answered", call)
            for number, at_ms in zip(numbers, fire_at_ms, strict=True):
                self._note("schedule", number, asked_ms, outcome_of(error), "", at_ms)
            return
        self._mark("answered", call)
        for number, task in zip(numbers, tasks, strict=True):
            self._stored(number, asked_ms, task)

    async def burst(self, count: int) -> None:
        """As many calls as there are lanes, all the time."""
        numbers = self._new(count)

        async def lane() -> None:
            while numbers:
                await self._single(numbers.pop())

        for _ in range(_LANES):
            self.spawn(lane)

    async def _single(self, number: int) -> None:
        at_ms = int(now_ms()) + self._ahead_ms(50, 1500)
        if self._rng.random() < _KEYED_SHARE:
            await self._keyed(number, at_ms)
            return
        request_id = self._request_id("s", number) if self._rng.random() < _REPEATED_SHARE else None
        await self._schedule(number, at_ms, request_id=request_id)

    async def _schedule(self, number: int, at_ms: int, **more: Any) -> Task | None:  # noqa: ANN401 - of the client
        """None: it was not stored, or nobody knows."""
        fields = {**self.fields_of(number), **more}
        ask = partial(_schedule, self.queue_of(number), str(number), _moment(at_ms), fields)
        call, asked_ms = self._begin(), now_ms()
        try:
            task = await ask(self._client)
        except TimerdError as error:
            self._note("schedule", number, asked_ms, outcome_of(error), "", at_ms)
            return None
        finally:
            self._mark("answered", call)
        if more.get("request_id"):
            self._repeat(f"schedule {number}", _stored_as(task), lambda client: _asked(ask, client))
        self._stored(number, asked_ms, task, may_change="key" not in more)
        return task

    # -- keys and repeats -----------------------------------------------------------------------------------------

    async def _keyed(self, number: int, at_ms: int) -> None:
        """A task, and the one that takes its key."""
        [later] = self._new(1)
        key = {"key": f"{self._run}-{number}", "on_conflict": "replace"}
        first = await self._schedule(number, at_ms, request_id=self._request_id("k", number), **key)
        if first is None:
            return
        asked_ms = now_ms()
        second = await self._schedule(later, at_ms + 500, request_id=self._request_id("k", later), **key)
        outcome = await self._became(first, lost_its_key=second is not None)
        if outcome:
            self._note("cancel", number, asked_ms, outcome, first.id, 0)

    async def _became(self, task: Task, *, lost_its_key: bool) -> str:
        """Of a task whose key another one may have got: as a cancel would have been answered; empty: it has fired."""
        try:
            state = (await self._client.get(task.id)).state
        except TimerdError:
            return "UNKNOWN"
        if state is TaskState.CANCELLED:
            return "CANCELLED"
        return "" if lost_its_key and state is TaskState.ACKED else "UNKNOWN"

    def _request_id(self, kind: str, number: int) -> str:
        return f"{self._run}-{kind}{number}"

    def _repeat(self, what: str, answer: object, ask: Callable[[Client], Awaitable[object]]) -> None:
        """In a while, until it is answered."""
        wait_s = self._rng.uniform(0, self._repeat_within_s)

        async def again() -> None:
            for _ in range(_REPEAT_TRIES):
                try:
                    said = await ask(self._other)
                except OutcomeUnknown:
                    continue
                except TimerdError as error:
                    if error.only_this_try:
                        continue
                    said = f"{outcome_of(error)} {error}"
                self.repeated += 1
                if said != answer:
                    raise AssertionError(f"{what} was answered {answer}, and its repeat {said}")
                return

        self.spawn(partial(self._after, wait_s, again))

    def _ahead_ms(self, least: int, most: int) -> int:
        """Some are due after the next kill or the one after it, some not in this bucket."""
        if self._next_bucket_share and self._rng.random() < self._next_bucket_share:
            at_ms = int(now_ms())
            return bucket_of(at_ms) + BUCKET_MS - at_ms + self._rng.randint(0, int(_NEXT_BUCKET_S * 1000))
        is_far = self._rng.random() < _FAR_SHARE
        return self._rng.randint(most, max(most, self._far_ms)) if is_far else self._rng.randint(least, most)

    def _stored(self, number: int, asked_ms: float, task: Task, *, may_change: bool = True) -> None:
        outcome = "OK" if task.outcome is ItemOutcome.STORED else task.outcome.name
        self._note("schedule", number, asked_ms, outcome, task.id, task.fire_at_ms)
        lot = self._rng.random()
        if outcome != "OK" or lot >= 2 * self._changed_share or not may_change:
            return
        change = self._cancel if lot < self._changed_share else self._move
        wait_s = self._rng.uniform(0, max(0.0, task.fire_at_ms - now_ms() + 20)) / 1000
        self.spawn(partial(self._after, wait_s, partial(change, number, task)))

    # -- changing -------------------------------------------------------------------------------------------------

    async def _after(self, wait_s: float, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(wait_s)
        await work()

    async def _cancel(self, number: int, task: Task) -> None:
        request_id = self._request_id("c", number)
        call, asked_ms = self._begin(), now_ms()
        try:
            outcome = (await self._client.cancel(task.id, request_id=request_id)).name
        except TimerdError as error:
            outcome = outcome_of(error)
        self._note("cancel", number, asked_ms, outcome, task.id, 0)
        self._mark("answered", call)
        if outcome == "CANCELLED" and self._rng.random() < _REPEATED_SHARE:
            self._repeat(f"cancel {number}", outcome, partial(_cancelled, task.id, request_id))

    async def _move(self, number: int, task: Task) -> None:
        """Of a task that is moved twice the first move is made again."""
        await self._move_once(number, task, "m")
        if self._rng.random() < _MOVED_TWICE_SHARE:
            await self._move_once(number, task, "n")

    async def _move_once(self, number: int, task: Task, kind: str) -> None:
        at_ms = int(now_ms()) + self._ahead_ms(50, 1500)
        request_id = self._request_id(kind, number)
        call, asked_ms = self._begin(), now_ms()
        outcome = await self._moved(task.id, at_ms, request_id)
        self._note("move", number, asked_ms, outcome, task.id, at_ms)
        self._mark("answered", call)
        if outcome == "OK" and (kind == "m" or self._rng.random() < _REPEATED_SHARE):
            self._repeat(f"move {number}", at_ms, partial(_moved_to, task.id, at_ms, request_id))

    async def _moved(self, task_id: str, at_ms: int, request_id: str) -> str:
        for _ in range(_MOVE_TRIES):
            try:
                await self._client.reschedule(task_id, at=_moment(at_ms), request_id=request_id)
            except Aborted as error:
                outcome = outcome_of(error)
            except TimerdError as error:
                return outcome_of(error)
            else:
                return "OK"
        return outcome

    def _note(self, verb: CallVerb, number: int, asked_ms: float, outcome: str, task_id: str, fire_at_ms: int) -> None:
        self._log.write([CallRecord(verb, number, asked_ms, now_ms(), outcome, task_id, fire_at_ms)])


async def _schedule(queue: str, payload: str, at: datetime, more: Any, client: Client) -> Task:  # noqa: ANN401
    return await client.schedule(queue, payload, at=at, **more)


async def _asked(ask: Callable[[Client], Awaitable[Task]], client: Client) -> object:
    return _stored_as(await ask(client))


def _stored_as(task: Task) -> object:
    return task.outcome.name, task.id, task.fire_at_ms


async def _cancelled(task_id: str, request_id: str, client: Client) -> object:
    return (await client.cancel(task_id, request_id=request_id)).name


async def _moved_to(task_id: str, at_ms: int, request_id: str, client: Client) -> object:
    moved = await client.reschedule(task_id, at=_moment(at_ms), request_id=request_id)
    return round((moved - _EPOCH) / timedelta(milliseconds=1))


async def main(given: argparse.Namespace, caller_type: type[Caller] = Caller) -> None:
    loop, orders = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with (
        Client(given.target, timeout=_TIMEOUT_S) as client,
        Client(given.repeat_through or given.target, timeout=_TIMEOUT_S) as other,
    ):
        numbers = given.first, given.changed_percent, given.next_bucket_percent
        log, rng = LogWriter(given.log), Random(given.seed)
        caller = caller_type(client, log, given.asked, rng, given.far_ms, *numbers, other, given.repeat_within_s)
        print("ready", flush=True)
        while (order := (await orders.readline()).decode().split()) and order[0] != "end":
            await (caller.bulk if order[0] == "bulk" else caller.burst)(int(order[1]))
        await caller.finish()
        print(f"repeated {caller.repeated}", flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("log", type=Path)
    parser.add_argument("asked", type=Path)
    for name in ("seed", "far_ms"):
        parser.add_argument(name, type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--changed-percent", type=int, default=10)
    parser.add_argument("--next-bucket-percent", type=int, default=0)
    parser.add_argument("--repeat-through", default="")
    parser.add_argument("--repeat-within-s", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main(parsed()))
