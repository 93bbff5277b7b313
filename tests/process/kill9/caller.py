"""A caller process: told on its standard input how much to ask for, it writes down what it asked before it asks, and
what it was answered.

`bulk N` schedules in batches, `burst N` in many concurrent single calls; a part of the tasks is cancelled or moved
later. Every task is changed at most once. `end` waits for all answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from timerd.client import Aborted, Client, ItemOutcome, PartlyStored, Task, TimerdError
from timerd.demo.callers import outcome_of
from timerd.demo.records import Call, LogWriter, Verb, now_ms
from timerd.model.partition import BUCKET_MS, bucket_of

QUEUES = ("faults", "sdk")
_LANES = 24
_TIMEOUT_S = 60.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_SHARE = 0.2
_NEXT_BUCKET_S = 10.0
_MOVE_TRIES = 5


def queue_of(number: int) -> str:
    return QUEUES[number % 5 == 0]


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


class Caller:
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
    ) -> None:
        """`first`: of its numbers, where there are several callers. So many percent are cancelled, so many are moved,
        and so many are for the seconds after the current bucket."""
        self._client = client
        self._log = log
        self._asked = asked.open("a", encoding="utf-8")
        self._rng = rng
        self._far_ms = far_ms
        self._changed_share, self._next_bucket_share = changed_percent / 100, next_bucket_percent / 100
        self._numbers, self._calls = first, 0
        self._tasks: set[asyncio.Task[None]] = set()

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
            for queue in QUEUES:
                self.spawn(partial(self._batch, queue, [number for number in new if queue_of(number) == queue]))

    async def _batch(self, queue: str, numbers: list[int]) -> None:
        fire_at_ms = [int(now_ms()) + self._ahead_ms(150, 700) for _ in numbers]
        items = [(str(number), _moment(at_ms)) for number, at_ms in zip(numbers, fire_at_ms, strict=True)]
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
        call, asked_ms = self._begin(), now_ms()
        try:
            task = await self._client.schedule(queue_of(number), str(number), at=_moment(at_ms))
        except TimerdError as error:
            self._note("schedule", number, asked_ms, outcome_of(error), "", at_ms)
        else:
            self._stored(number, asked_ms, task)
        finally:
            self._mark("answered", call)

    def _ahead_ms(self, least: int, most: int) -> int:
        """Some are due after the next kill or the one after it, some not in this bucket."""
        if self._next_bucket_share and self._rng.random() < self._next_bucket_share:
            at_ms = int(now_ms())
            return bucket_of(at_ms) + BUCKET_MS - at_ms + self._rng.randint(0, int(_NEXT_BUCKET_S * 1000))
        is_far = self._rng.random() < _FAR_SHARE
        return self._rng.randint(most, max(most, self._far_ms)) if is_far else self._rng.randint(least, most)

    def _stored(self, number: int, asked_ms: float, task: Task) -> None:
        outcome = "OK" if task.outcome is ItemOutcome.STORED else task.outcome.name
        self._note("schedule", number, asked_ms, outcome, task.id, task.fire_at_ms)
        lot = self._rng.random()
        if outcome != "OK" or lot >= 2 * self._changed_share:
            return
        change = self._cancel if lot < self._changed_share else self._move
        wait_s = self._rng.uniform(0, max(0.0, task.fire_at_ms - now_ms() + 20)) / 1000
        self.spawn(partial(self._after, wait_s, partial(change, number, task)))

    # -- changing -------------------------------------------------------------------------------------------------

    async def _after(self, wait_s: float, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(wait_s)
        await work()

    async def _cancel(self, number: int, task: Task) -> None:
        call, asked_ms = self._begin(), now_ms()
        try:
            outcome = (await self._client.cancel(task.id)).name
        except TimerdError as error:
            outcome = outcome_of(error)
        self._note("cancel", number, asked_ms, outcome, task.id, 0)
        self._mark("answered", call)

    async def _move(self, number: int, task: Task) -> None:
        at_ms = int(now_ms()) + self._ahead_ms(50, 1500)
        call, asked_ms = self._begin(), now_ms()
        outcome = await self._moved(task.id, at_ms)
        self._note("move", number, asked_ms, outcome, task.id, at_ms)
        self._mark("answered", call)

    async def _moved(self, task_id: str, at_ms: int) -> str:
        for _ in range(_MOVE_TRIES):
            try:
                await self._client.reschedule(task_id, at=_moment(at_ms))
            except Aborted as error:
                outcome = outcome_of(error)
            except TimerdError as error:
                return outcome_of(error)
            else:
                return "OK"
        return outcome

    def _note(self, verb: Verb, number: int, asked_ms: float, outcome: str, task_id: str, fire_at_ms: int) -> None:
        self._log.write([Call(verb, number, asked_ms, now_ms(), outcome, task_id, fire_at_ms)])


async def _main(target: str, log: Path, asked: Path, seed: int, far_ms: int, *how: int) -> None:
    loop, orders = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with Client(target, timeout=_TIMEOUT_S) as client:
        caller = Caller(client, LogWriter(log), asked, Random(seed), far_ms, *how)
        print("ready", flush=True)
        while (order := (await orders.readline()).decode().split()) and order[0] != "end":
            await (caller.bulk if order[0] == "bulk" else caller.burst)(int(order[1]))
        await caller.finish()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *map(int, sys.argv[4:])))
