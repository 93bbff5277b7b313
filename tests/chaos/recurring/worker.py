"""A worker of all schedules: it writes down when it begins a delivery and when it is through with it. What must not run
beside another takes its time, and fails now and then, so that a task is open over several attempts."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from tests.chaos.lines import Writer
from tests.chaos.recurring.plan import QUEUES
from tests.chaos.recurring.records import Begun, Ended
from timerd.demo.records import now_ms
from timerd.worker import Delivery, Worker

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# One that is killed keeps nothing open for long.
_LEASE_S = 5.0
_FAILING_SHARE = 0.1
_CONCURRENCY = 400


class Failed(Exception):
    """On purpose."""


def begun_of(delivery: Delivery) -> Begun:
    occurrence = delivery.occurrence
    assert occurrence is not None
    life, version, _, _ = map(int, delivery.payload.split())
    return Begun(
        occurrence.schedule_id,
        life,
        version,
        round((occurrence.instant - _EPOCH) / timedelta(milliseconds=1)),
        delivery.fire_at_ms,
        occurrence.reason.name,
        delivery.task_id,
        delivery.delivery_id,
        delivery.attempt,
        now_ms(),
        delivery.fencing_scope,
        delivery.fencing_token,
    )


def main(target: str, log_path: Path, seed: int) -> None:
    worker, log, rng = Worker(target, lease=_LEASE_S), Writer(log_path), Random(seed)

    async def handle(delivery: Delivery) -> None:
        log.write(begun_of(delivery))
        _, _, least_ms, most_ms = map(int, delivery.payload.split())
        if most_ms:
            await asyncio.sleep(rng.uniform(least_ms, most_ms) / 1000)
            if delivery.attempt == 1 and rng.random() < _FAILING_SHARE:
                raise Failed
        log.write(Ended(delivery.task_id, delivery.attempt, now_ms()))

    for queue in QUEUES:
        worker.on(queue, concurrency=_CONCURRENCY)(handle)
    print("ready", flush=True)
    worker.run_forever()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
