"""Celery on Redis, a task with `eta` for each job and the rate limit that a task of it may have, of all its calls."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

import celery

from benchmarks.sharing.clients.play import Play, played

LOOK_EVERY_S = 0.05
RATE_LIMIT = "100/s"


def _play(play: Play) -> None:
    app = celery.Celery(broker=f"redis://{play.target}/0")
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
    )

    def handle(place: int) -> None:
        time.sleep(play.start(place))

    task = app.task(name="handle", rate_limit=RATE_LIMIT)(handle)
    for place, (_, due_s, _) in enumerate(play.jobs):
        task.apply_async((place,), eta=datetime.fromtimestamp(play.begin_s + due_s, UTC))
    worker = app.WorkController(pool="threads", concurrency=play.slots, without_gossip=True, without_mingle=True)
    threading.Thread(target=worker.start, daemon=True).start()
    while not play.is_over:
        time.sleep(LOOK_EVERY_S)


if __name__ == "__main__":
    played(_play)
    # Its pool would wait for the handlers that are under way.
    os._exit(0)
