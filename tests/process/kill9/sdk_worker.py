"""A worker that is the SDK's own, as a user would write it: it must drop nothing and hold nothing back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from timerd.demo.records import DeliveryRecord, LogWriter, now_ms
from timerd.worker import Delivery as Received
from timerd.worker import Worker


def main(target: str, queue: str, log_path: Path) -> None:
    worker, log = Worker(target), LogWriter(log_path)

    @worker.on_batch(queue, max_size=200)
    async def note(batch: Sequence[Received]) -> None:
        received_ms = now_ms()
        log.write(
            DeliveryRecord(
                number=int(each.payload),
                task_id=each.task_id,
                delivery_id=each.delivery_id,
                attempt=each.attempt,
                fire_at_ms=each.fire_at_ms,
                received_ms=received_ms,
            )
            for each in batch
        )

    print("ready", flush=True)
    worker.run_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
