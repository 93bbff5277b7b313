"""Runs in a pod: a worker as a user writes it, for the queue `slow`, which gets every other number.

Two in a hundred of its handlers, one in a hundred of all tasks, take 5 s, and some at the beginning longer than an
instance has to end, twice over. What it received stands in /data/slow.log, what it has done in /data/done.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from timerd.demo.records import DeliveryRecord, LogWriter, now_ms
from timerd.worker import Delivery as Received
from timerd.worker import Worker

SLOW_S, SLOW_EVERY = 5.0, 50
# One about every five seconds.
LONG_EVERY_S = 5
_AT_ONCE = 5_000


def main(target: str, rate: int, long: int, long_s: float) -> None:
    """So many handlers, `long`, take `long_s`."""
    worker, log = Worker(target), LogWriter(Path("/data/slow.log"))
    done = Path("/data/done").open("a", encoding="utf-8")  # noqa: SIM115 - until the pod ends

    def duration_s(number: int) -> float:
        count, beyond = divmod(number // 2, rate // 2 * LONG_EVERY_S)
        if beyond == 0 and count < long:
            return long_s
        return SLOW_S if number // 2 % SLOW_EVERY == 1 else 0.0

    @worker.on("slow", concurrency=_AT_ONCE)
    async def note(each: Received) -> None:
        number, began_ms = int(each.payload), now_ms()
        fencing = each.fencing_scope, each.fencing_token
        log.write(
            [DeliveryRecord(number, each.task_id, each.delivery_id, each.attempt, each.fire_at_ms, began_ms, *fencing)]
        )
        lasts_s = duration_s(number)
        if lasts_s:
            await asyncio.sleep(lasts_s)
        done.write(f"{number} {began_ms:.0f} {now_ms():.0f}\n")
        done.flush()

    worker.run_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
