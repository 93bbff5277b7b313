"""Data of each schema version, kept as text, so that today's code can be tried on them.

`python -m tests.sqlite.older` writes those of the version of the day, once, when it is made; they stay as they are.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from timerd.adapters.sqlite.files import DATABASE
from timerd.adapters.sqlite.schema import APPLICATION_ID, MIGRATIONS
from timerd.testing import Server
from timerd.worker import Delivery, Reject

VERSIONS = Path(__file__).parent / "versions"
START = datetime(2030, 1, 1, 8, tzinfo=UTC)
# When the data were left, and who has to come after that: (queue, payload), in order.
LEFT = datetime(2030, 1, 1, 9, tzinfo=UTC)
AHEAD = [
    *(("mails", f"soon-{number}".encode()) for number in range(3)),
    ("mails", b"moved"),
    ("mails", b"large" * 100),
    *(("news", f"far-{number}".encode()) for number in range(3)),
]


async def write(data: Path) -> None:
    """A life of an hour: done, dead, cancelled alone and together, moved, soon and far."""
    async with Server(data=data, start=START) as server:
        client, worker = server.client(), server.worker()

        @worker.on("mails")
        async def handle(delivery: Delivery) -> None:
            if delivery.payload == b"bad":
                raise Reject("no such address")

        await worker.start()
        for payload in (b"done", b"bad"):
            await client.schedule("mails", payload, delay=60, key=payload.decode())
        await client.cancel((await client.schedule("mails", b"cancelled", delay=7_200, key="cancelled")).id)
        for number in range(3):
            await client.schedule("mails", b"soon-%d" % number, delay=7_200 + number, labels={"to": "ada"})
            await client.schedule("news", b"far-%d" % number, delay=40 * 86_400 + number)
        await client.schedule("mails", b"large" * 100, delay=9_000)
        many = await client.schedule_many(
            "mails", [(b"cancelled-%d" % number, timedelta(seconds=7_300)) for number in range(40)]
        )
        await client.cancel_many([task.id for task in many])
        moved = await client.schedule("mails", b"moved", delay=90_000, key="moved")
        await client.reschedule(moved.id, delay=8_000)
        await server.advance_to(LEFT)


def dump(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def load(version: int, data: Path) -> None:
    """A data directory as that version left it."""
    data.mkdir(parents=True)
    with closing(sqlite3.connect(data / DATABASE, isolation_level=None)) as connection:
        connection.executescript((VERSIONS / f"{version}.sql").read_text(encoding="utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {version}")


def main() -> None:
    path = VERSIONS / f"{MIGRATIONS[-1].version}.sql"
    if path.exists():
        raise SystemExit(f"{path} is there: data of a version that is out stay as they are.")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(Path(folder)))
        path.write_text(dump(Path(folder) / DATABASE), encoding="utf-8")


if __name__ == "__main__":
    main()
