"""A worker of one queue that takes so many tasks a second and no more; 0: as they come."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.process.soak.logs import CompactLog
from timerd.demo.records import DeliveryRecord, now_ms
from timerd.worker import Delivery as Received
from timerd.worker import Worker

BATCH = 500


def main(target: str, queue: str, log_path: Path, pace: int) -> None:
    worker, log = Worker(target), CompactLog(log_path)

    @worker.on_batch(queue, max_size=BATCH)
    async def note(batch: Sequence[Received]) -> None:
        received_ms = now_ms()
        log.write(
            DeliveryRecord(int(each.payload), "", each.delivery_id, each.attempt, each.fire_at_ms, received_ms)
            for each in batch
        )
        if pace:
            await asyncio.sleep(len(batch) / pace)

    print("ready", flush=True)
    worker.run_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
