"""Celery with `eta` on Redis: the worker fetches tasks as they are stored and keeps them in memory until due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import celery

from benchmarks.peers.clients.talk import Client, Enter, Task, obey


class CeleryEta(Client):
    """There is no bulk path: a batch is a loop. What is revoked is known to workers' memory only: no cancel.

    The worker's `threads` take what the handler only notes down at less cost than processes."""

    # No message is smaller or larger for it: after so many it is looked whether the time is over.
    batch = 50

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        self._app = celery.Celery(broker=f"redis://{target}/0")
        self._app.conf.update(
            task_ignore_result=True,
            task_acks_late=True,
            worker_prefetch_multiplier=100,
            broker_connection_retry_on_startup=True,
            broker_transport_options={"visibility_timeout": 3600},
            worker_hijack_root_logger=False,
        )
        self._enter: Enter = lambda payloads: None

        def handle(payload: str) -> None:
            self._enter([payload])

        self._handler: Any = self._app.task(name="handle")(handle)

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        send = self._handler.apply_async
        return [send((task.payload,), eta=datetime.fromtimestamp(task.due_ms / 1e3, UTC)).id for task in tasks]

    def count(self) -> int:
        """In the list that workers fetch from, and what they have fetched and not acknowledged."""
        with self._app.connection_for_read() as connection:
            redis = connection.default_channel.client
            both = redis.pipeline(transaction=True)
            waiting, fetched = both.llen("celery").hlen("unacked").execute()
        return int(waiting) + int(fetched)

    def consume(self, enter: Enter) -> None:
        self._enter = enter
        self._app.WorkController(
            pool="threads",
            concurrency=int(self.options.get("threads", 8)),
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        ).start()


if __name__ == "__main__":
    obey(CeleryEta)
