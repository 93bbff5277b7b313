"""A server process in which there is something of each kind that a command lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from time import sleep

from tests.cli.served import Server
from timerd.client import SyncClient
from timerd.v1.overview_service_pb2 import PoolActivity
from timerd.worker import Worker

LONG = "reminders/of-a-rather-long-name.which-somebody-chose"
LIMIT = "the-partner-who-takes-a-hundred-calls-a-second"
ERROR = "KeyError: 'ada', since the order that it belongs to is not there any more and nobody knows why"


def filled_server(folder: Path) -> Server:
    server = Server(folder)
    with SyncClient(server.address) as client:
        _add_tasks(client)
        _add_schedules(client)
        _add_cycle(client)
        _add_rules(client)
    return server


@contextmanager
def working(address: str) -> Iterator[None]:
    """A worker with a pool is connected."""
    worker = Worker(address, name="converter-of-the-third-floor-in-berlin-4711")
    pool = worker.pool("convert", slots=8)
    for queue in ("pdf", "excel", LONG):
        pool.on(queue)(print)
    worker.on("letters", concurrency=2)(print)
    thread = Thread(target=asyncio.run, args=(worker.run(),))
    thread.start()
    try:
        with SyncClient(address) as client:
            while not any(pool.free for pool in _pools(client)):
                sleep(0.05)
        yield
    finally:
        asyncio.run(worker.stop())
        thread.join()


def _pools(client: SyncClient) -> list[PoolActivity]:
    return [pool for each in client.overview().instances for worker in each.workers for pool in worker.pools]


def _add_tasks(client: SyncClient) -> None:
    labels = {"to": "ada", "team": "the-blue-one"}
    client.schedule("mails", b"welcome, Ada\n" * 20, delay=12_000, key="order-4711", labels=labels)
    client.schedule(LONG, "日本語の長いペイロード".encode() * 4, delay=timedelta(days=10))
    client.schedule(LONG, b"\xff" * 60, delay=timedelta(days=1_000))
    client.schedule("jobs", b"hopeless", delay=0)
    client.finish(client.receive("jobs"), "reject", error=f"Traceback\n  at x\n{ERROR}")


def _add_schedules(client: SyncClient) -> None:
    client.schedules.create("report", queue="reports", cron="0 9 * * MON-FRI", zone="America/Argentina/Buenos_Aires")
    client.schedules.create(LONG, queue=LONG, every=3600, labels={"app": "bills"})
    end = datetime.now(UTC) - timedelta(days=2)
    client.schedules.backfill("report", start=end - timedelta(days=3), end=end, backfill_id="of-the-days-before")


def _add_cycle(client: SyncClient) -> None:
    client.cycles.create("sync", every=28_800, queue=LONG, slots=8)
    client.cycles.put("sync", ["a", "a-member-with-a-key-that-is-longer-than-others"])


def _add_rules(client: SyncClient) -> None:
    client.queues.pause(LONG, note="the printer on the third floor is broken, and nobody knows where the key is")
    client.queues.pause("pages")
    for key in ("book", "a-book-with-a-rather-long-name.which-somebody-chose/日本語"):
        client.schedule("pages", b"1", delay=0, ordering_key=key)
    client.limits.put(LIMIT, rate="100/s", burst=20, max_in_hand=50)
    client.queues.put("mails", rate="100/s", burst=20, max_in_hand=50, limits=[LIMIT])
