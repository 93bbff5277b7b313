"""APScheduler 3 with its SQLAlchemy store on a SQLite file: a library, so all of it lives in the client's process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy import create_engine, event, text

from benchmarks.peers.clients import handled
from benchmarks.peers.clients.talk import Client, Enter, Task, obey

WAIT_FOR_LOCK_S = 60


class ApScheduler(Client):
    """There is no bulk path: a batch is a loop, and each job is a commit. Handlers run in `threads`."""

    # No message is smaller or larger for it: after so many it is looked whether the time is over.
    batch = 50

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        self._engine = create_engine(f"sqlite:///{target}", connect_args={"timeout": WAIT_FOR_LOCK_S})
        event.listen(self._engine, "connect", _durable)
        self._scheduler = BackgroundScheduler(
            jobstores={"default": SQLAlchemyJobStore(engine=self._engine)},
            executors={"default": ThreadPoolExecutor(int(options.get("threads", 8)))},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        # Paused, it stores and cancels, and fires nothing.
        self._scheduler.start(paused=True)

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        for task in tasks:
            due = datetime.fromtimestamp(task.due_ms / 1e3, UTC)
            self._scheduler.add_job(handled.NAME, "date", run_date=due, args=(task.payload,), id=task.id)
        return [task.id for task in tasks]

    def cancel(self, ids: Sequence[Any]) -> int:
        for one in ids:
            self._scheduler.remove_job(one)
        return len(ids)

    def count(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(text("select count(*) from apscheduler_jobs")).scalar_one())

    def consume(self, enter: Enter) -> None:
        handled.ENTER.append(enter)
        self._scheduler.resume()
        threading.Event().wait()


def _durable(connection: Any, _: object) -> None:  # noqa: ANN401 - a connection of any driver
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")


if __name__ == "__main__":
    obey(ApScheduler)
