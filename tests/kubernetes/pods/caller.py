"""Runs in a pod: so many tasks a second, due seconds later, until /data/end is there; every answer is written down.

Every number goes to one of two queues; see handler.py for what becomes of it.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from timerd.client import Client, ItemOutcome, PartlyStored, TimerdError
from timerd.demo.callers import outcome_of
from timerd.demo.records import CallRecord, LogWriter, now_ms

QUEUES = ("swift", "slow")
OUTCOMES = {ItemOutcome.STORED: "OK", ItemOutcome.NOT_STORED: "NOT_STORED", ItemOutcome.UNKNOWN: "UNKNOWN"}
DATA = Path("/data")
BATCHES_A_SECOND = 20
# Some nearly at once, most later.
AHEAD_S = (0.3, 8.0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Caller:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._log = LogWriter(DATA / "caller.log")
        self._rng = Random(7)

    async def ask(self, numbers: range) -> None:
        for at, queue in enumerate(QUEUES):
            own = [number for number in numbers if number % len(QUEUES) == at]
            moments = [round(now_ms() + 1000 * self._rng.uniform(*AHEAD_S)) for _ in own]
            await self._schedule(queue, own, moments)

    async def _schedule(self, queue: str, numbers: list[int], moments_ms: list[int]) -> None:
        asked_ms = now_ms()
        whens = [_EPOCH + timedelta(milliseconds=moment) for moment in moments_ms]
        try:
            tasks = await self._client.schedule_many(queue, list(zip(map(str, numbers), whens, strict=True)))
        except PartlyStored as error:
            print(error, file=sys.stderr)
            tasks = error.tasks
        except TimerdError as error:
            print(error, file=sys.stderr)
            self._write(numbers, asked_ms, [(outcome_of(error), "", moment) for moment in moments_ms])
            return
        self._write(numbers, asked_ms, [(OUTCOMES[task.outcome], task.id, task.fire_at_ms) for task in tasks])

    def _write(self, numbers: list[int], asked_ms: float, answers: list[tuple[str, str, int]]) -> None:
        answered_ms = now_ms()
        self._log.write(
            CallRecord("schedule", number, asked_ms, answered_ms, *answer)
            for number, answer in zip(numbers, answers, strict=True)
        )


async def main(target: str, rate: int) -> None:
    size, running, number = max(1, rate // BATCHES_A_SECOND), set[asyncio.Task[None]](), 0
    loop = asyncio.get_running_loop()
    async with Client(target, timeout=60) as client:
        caller, next_s = Caller(client), loop.time()
        while not (DATA / "end").exists():
            task = asyncio.create_task(caller.ask(range(number, number + size)))
            running.add(task)
            task.add_done_callback(running.discard)
            number, next_s = number + size, next_s + 1 / BATCHES_A_SECOND
            await asyncio.sleep(max(0.0, next_s - loop.time()))
        await asyncio.gather(*running)
    (DATA / "asked").write_text(str(number))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
