"""The callers of the soak, one process: so many tasks a second until the end, most of them due within seconds, some
within minutes, some cancelled or moved. Calls that a kill leaves unanswered are repeated by the SDK; new ones do not
wait for them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from tests.process.soak.logs import CompactLog
from tests.process.soak.worker import QUEUE
from timerd.client import Aborted, Client, ItemOutcome, PartlyStored, Task, TimerdError
from timerd.demo.callers import outcome_of
from timerd.demo.records import CallRecord, CallVerb, now_ms

TICK_S = 0.1
_TIMEOUT_S = 90.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# (share, least, most) in milliseconds ahead.
_AHEAD_MS = ((0.70, 200, 10_000), (0.95, 10_000, 120_000), (1.0, 120_000, 420_000))
_CANCELLED_SHARE = _MOVED_SHARE = 0.02
_MOVE_TRIES = 5
_PAYLOAD_BYTES = 100


def moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


class Caller:
    def __init__(self, client: Client, log: CompactLog, rng: Random, end_ms: int) -> None:
        self._client = client
        self._log = log
        self._rng = rng
        self._end_ms = end_ms
        self._numbers = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None

    async def run(self, rate: int) -> None:
        """Keeps the pace by the clock: a tick that comes late brings what was missed."""
        start_ms = now_ms()
        while (at_ms := now_ms()) < self._end_ms and self._failed is None:
            missing = int((at_ms - start_ms) / 1000 * rate) - self._numbers
            numbers = range(self._numbers, self._numbers + missing)
            self._numbers += missing
            for at in range(0, missing, 1000):
                self._spawn(self._batch(numbers[at : at + 1000]))
            await asyncio.sleep(TICK_S)
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._failed is not None:
            raise self._failed

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._failed = self._failed or task.exception()

    def _due_ms(self) -> int:
        lot = self._rng.random()
        least, most = next((least, most) for share, least, most in _AHEAD_MS if lot <= share)
        now = int(now_ms())
        left_ms = max(1, self._end_ms - now)
        return now + min(self._rng.randint(least, most), self._rng.randint(0, left_ms))

    async def _batch(self, numbers: Sequence[int]) -> None:
        asked_ms, dues = now_ms(), [self._due_ms() for _ in numbers]
        items = [(b"%0*d" % (_PAYLOAD_BYTES, n), moment(at_ms)) for n, at_ms in zip(numbers, dues, strict=True)]
        try:
            tasks = await self._client.schedule_many(QUEUE, items)
        except PartlyStored as error:
            tasks = error.tasks
        except TimerdError as error:
            outcome, answered_ms = outcome_of(error), now_ms()
            unstored = zip(numbers, dues, strict=True)
            self._log.write(
                CallRecord("schedule", n, asked_ms, answered_ms, outcome, "", at_ms) for n, at_ms in unstored
            )
            return
        answered_ms = now_ms()
        self._log.write(
            CallRecord("schedule", n, asked_ms, answered_ms, _stored(task), "", task.fire_at_ms)
            for n, task in zip(numbers, tasks, strict=True)
        )
        for number, task in zip(numbers, tasks, strict=True):
            self._perhaps_change(number, task)

    def _perhaps_change(self, number: int, task: Task) -> None:
        lot = self._rng.random()
        if task.outcome is ItemOutcome.STORED and lot < _CANCELLED_SHARE + _MOVED_SHARE:
            verb: CallVerb = "cancel" if lot < _CANCELLED_SHARE else "move"
            wait_s = self._rng.uniform(0, max(0.0, task.fire_at_ms - now_ms() + 20)) / 1000
            self._spawn(self._change(verb, number, task.id, wait_s))

    async def _change(self, verb: CallVerb, number: int, task_id: str, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        asked_ms, at_ms = now_ms(), 0
        if verb == "cancel":
            outcome = await self._cancelled(task_id)
        else:
            at_ms = self._due_ms()
            outcome = await self._moved(task_id, at_ms)
        self._log.write([CallRecord(verb, number, asked_ms, now_ms(), outcome, "", at_ms)])

    async def _cancelled(self, task_id: str) -> str:
        try:
            return (await self._client.cancel(task_id)).name
        except TimerdError as error:
            return outcome_of(error)

    async def _moved(self, task_id: str, at_ms: int) -> str:
        outcome = "ABORTED"
        for _ in range(_MOVE_TRIES):
            try:
                await self._client.reschedule(task_id, at=moment(at_ms))
            except Aborted:
                continue
            except TimerdError as error:
                return outcome_of(error)
            return "OK"
        return outcome


def _stored(task: Task) -> str:
    return "OK" if task.outcome is ItemOutcome.STORED else task.outcome.name


async def _main(target: str, log: Path, rate: int, end_ms: int, seed: int) -> None:
    async with Client(target, timeout=_TIMEOUT_S) as client:
        print("ready", flush=True)
        await Caller(client, CompactLog(log), Random(seed), end_ms).run(rate)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6])))
