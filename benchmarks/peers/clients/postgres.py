"""PostgreSQL as a queue, by hand: COPY in, DELETE ... FOR UPDATE SKIP LOCKED out, committed after the handler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from benchmarks.peers.clients.talk import Client, Enter, Task, obey

START_S = 10.0
TABLE = """
create table if not exists tasks (id text primary key, due_ms bigint not null, payload text not null);
create index if not exists tasks_due on tasks (due_ms);
"""
TAKE = """
delete from tasks where id = any (array(
  select id from tasks where due_ms <= %s order by due_ms limit %s for update skip locked)) returning payload
"""


class Postgres(Client):
    """`batch` rows a COPY, `fetch` rows a DELETE; nothing due is looked for again after `poll_ms`."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        host, _, port = target.partition(":")
        self._db = _connected(f"host={host} port={port} user=timers dbname=postgres")
        with self._db.transaction():
            # Eight clients that make the table at once would collide.
            self._db.execute("select pg_advisory_xact_lock(1)")
            self._db.execute(TABLE)

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        if len(tasks) == 1:
            self._db.execute("insert into tasks values (%s, %s, %s)", tasks[0])
        else:
            with self._db.cursor() as cursor, cursor.copy("copy tasks from stdin") as copy:
                copy.write("".join(f"{task.id}\t{task.due_ms}\t{task.payload}\n" for task in tasks))
        return [task.id for task in tasks]

    def cancel(self, ids: Sequence[Any]) -> int:
        return int(self._db.execute("delete from tasks where id = any (%s)", (list(ids),)).rowcount)

    def count(self) -> int:
        return int(self._db.execute("select count(*) from tasks").fetchone()[0])

    def ready(self) -> None:
        self._db.execute("analyze tasks")

    def consume(self, enter: Enter) -> None:
        fetch, poll_s = int(self.options.get("fetch", 500)), float(self.options.get("poll_ms", 2)) / 1e3
        while True:
            with self._db.transaction():
                taken = self._db.execute(TAKE, (time.time_ns() // 1_000_000, fetch), prepare=True).fetchall()
                if taken:
                    enter([payload for (payload,) in taken])
            if not taken:
                time.sleep(poll_s)


def _connected(where: str) -> Any:  # noqa: ANN401 - the rows of each query have another type
    """A server that has just begun to listen turns callers away for a moment."""
    end_s = time.monotonic() + START_S
    while True:
        try:
            return psycopg.connect(where, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    obey(Postgres)
