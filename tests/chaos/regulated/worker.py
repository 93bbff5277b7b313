"""A worker of one kind: it writes down when it begins an attempt, and when and how its handler has ended. It fails and
rejects what the plan says."""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path
from random import Random

from tests.chaos.lines import Writer
from tests.chaos.regulated.plan import LEASE_MS, OFFERS, fails, hold_ms, is_rejected
from tests.chaos.regulated.records import DONE, FAILED, REJECTED, Begun, Ended
from timerd.demo.records import now_ms
from timerd.worker import Delivery, Reject, Worker


class Failed(Exception):
    """On purpose."""


class Handling:
    """The handler of all queues of a worker."""

    def __init__(self, name: str, kind: int, log: Writer, rng: Random) -> None:
        self._name, self._kind, self._log, self._rng = name, kind, log, rng
        self._serials = count(1)

    async def __call__(self, delivery: Delivery) -> None:
        begun = self._begun(delivery)
        self._log.write(begun)
        how = FAILED
        try:
            await asyncio.sleep(self._rng.uniform(*hold_ms(delivery.queue)) / 1000)
            self._fail(begun)
            how = DONE
        except Reject:
            how = REJECTED
            raise
        except asyncio.CancelledError:
            reason = delivery.interrupted.reason
            how = reason.name if reason is not None else FAILED
            raise
        finally:
            self._log.write(Ended(self._name, begun.serial, how, now_ms()))

    def _fail(self, begun: Begun) -> None:
        if is_rejected(begun.number):
            raise Reject("the plan says so")
        if fails(begun.number, begun.attempt):
            raise Failed

    def _begun(self, delivery: Delivery) -> Begun:
        return Begun(
            self._name,
            self._kind,
            next(self._serials),
            delivery.queue,
            int(delivery.payload),
            delivery.ordering_key,
            delivery.task_id,
            delivery.delivery_id,
            delivery.attempt,
            delivery.fire_at_ms,
            now_ms(),
            delivery.fencing_scope,
            delivery.fencing_token,
            tuple(delivery.order_fence or ()),
        )


def main(target: str, name: str, kind: int, log_path: Path, seed: int) -> None:
    worker, offer = Worker(target, name=name, lease=LEASE_MS / 1000), OFFERS[kind]
    handle = Handling(name, kind, Writer(log_path), Random(seed))
    for queue in offer.single:
        worker.on(queue, concurrency=offer.concurrency)(handle)
    pool = worker.pool("types", slots=offer.slots)
    for queue in offer.types:
        pool.on(queue)(handle)
    print("ready", flush=True)
    worker.run_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
