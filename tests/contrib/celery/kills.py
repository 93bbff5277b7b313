"""Publishers that are killed while they publish: each task runs, and one that runs twice does so with its id.

`python -m tests.contrib.celery.kills --kills 50` kills so often; the suite does so a few times.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import redis

from tests.contrib.celery import shop
from tests.contrib.celery.conftest import Publishing, Working
from tests.engines.finding import own_redis
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState

PER_KILL = 40
PATIENCE_S = 240


class Seen(NamedTuple):
    """What came of all that was called.

    Args:
        called: the ids of the calls.
        runs: how often each id ran.
        revoked: those that were revoked before their instant.
        left: tasks that timerd has not ended.
        dead: dead letters.
    """

    called: set[str]
    runs: Counter[str]
    revoked: set[str]
    left: int
    dead: int

    @property
    def lost(self) -> set[str]:
        return self.called - self.revoked - set(self.runs)

    @property
    def wrong(self) -> set[str]:
        """Ran although they were revoked, or were never called."""
        return set(self.runs) - (self.called - self.revoked)

    def __str__(self) -> str:
        again = sum(self.runs.values()) - len(self.runs)
        return (
            f"{len(self.called)} called, {len(self.revoked)} of them revoked, {len(self.runs)} ran, {again} again, "
            f"{len(self.lost)} lost, {len(self.wrong)} wrong, {self.left} left, {self.dead} dead"
        )


def play(folder: Path, kills: int, seed: int = 1) -> Seen:
    """Calls that are due over the time of the kills, and one in ten of them revoked."""
    children, chance, broker = Children(), random.Random(seed), own_redis()
    try:
        broker.start()
        url = f"{broker.url}/0"
        server = children.own(Server(folder))
        server.start()
        children.own(Working(folder, url, server.address)).start()
        publisher = children.own(Publishing(folder, server.address, url))
        publisher.start()
        app = shop.make(url, server.address, longer_than=0.5)
        note, called, revoked = app.tasks["shop.note"], set[str](), set[str]()
        for _ in range(kills):
            begun = [note.apply_async(countdown=1 + chance.random()).id for _ in range(PER_KILL)]
            far = [note.apply_async(countdown=60).id for _ in range(PER_KILL // 10)]
            app.control.revoke(far)
            called.update(begun, far)
            revoked.update(far)
            time.sleep(chance.uniform(1, 2))
            publisher.kill()
            publisher.start()
        return _seen(server, url, called, revoked)
    finally:
        children.end()
        broker.stop()


def _seen(server: Server, url: str, called: set[str], revoked: set[str]) -> Seen:
    with SyncClient(server.address, timeout=60) as client, redis.Redis.from_url(url) as notes:

        def left() -> int:
            return len([*client.list(queue="celery", states=_ALIVE)])

        until(lambda: not left(), "timerd has ended all", PATIENCE_S, look_s=0.2)
        # What was published last may still be with the worker.
        until(lambda: not notes.llen("celery") and not notes.hlen("unacked"), "the worker has run all", PATIENCE_S)
        runs = Counter(shop.notes(notes))
        return Seen(called, runs, revoked, left(), len([*client.dead_letters()]))


_ALIVE = (TaskState.PENDING, TaskState.IN_FLIGHT, TaskState.RETRYING)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = play(Path(folder), given.kills, given.seed)
    print(f"{given.kills} kills, seed {given.seed}: {seen}")
    raise SystemExit(bool(seen.lost or seen.wrong or seen.left or seen.dead))


if __name__ == "__main__":
    main()
