"""Publishers that are killed while they publish: each task runs, and one that runs twice does so with its id.

`python -m tests.contrib.celery.kills --kills 50` kills so often; the suite does so a few times.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.contrib.celery import shop
from tests.contrib.celery.conftest import Dying, Publishing, Working
from tests.engines.finding import own_redis
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import came, until
from timerd.client import SyncClient, TaskState

PER_KILL, SOON_S, FAR_S, CALLERS = 40, 1, 3600, 10
PATIENCE_S, SETTLED_S = 240, 60


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

    @property
    def again(self) -> int:
        return sum(self.runs.values()) - len(self.runs)

    def __str__(self) -> str:
        return (
            f"{len(self.called)} called, {len(self.revoked)} of them revoked, {len(self.runs)} ran, "
            f"{self.again} again, {len(self.lost)} lost, {len(self.wrong)} wrong, {self.left} left, {self.dead} dead"
        )


def play(folder: Path, kills: int, seed: int = 1) -> Seen:
    """For each kill some calls that are soon due, and a few that are revoked before their instant."""
    children, chance, broker = Children(), random.Random(seed), own_redis()
    try:
        broker.start()
        url = f"{broker.url}/0"
        server = children.own(Server(folder))
        server.start()
        children.own(Working(folder, url, server.address)).start()
        app = shop.make(url, server.address, longer_than=0.5)
        note, called, revoked = app.tasks["shop.note"], set[str](), set[str]()
        for _ in range(kills):
            begun = called_at_once(note, [{"countdown": SOON_S}] * PER_KILL)
            far = called_at_once(note, [{"countdown": FAR_S}] * (PER_KILL // 10))
            app.control.revoke(far)
            called.update(begun, far)
            revoked.update(far)
            dying = children.own(Dying(folder, server.address, url, chance.randint(1, PER_KILL)))
            dying.start()
            assert dying.wait(PATIENCE_S) == -signal.SIGKILL
        children.own(Publishing(folder, server.address, url)).start()
        shop.close(app)
        return _seen(server, url, called, revoked)
    finally:
        children.end()
        broker.stop()


def called_at_once(task: Any, calls: list[dict[str, Any]]) -> list[str]:  # noqa: ANN401 - a task
    """The ids, of calls from several threads."""
    with ThreadPoolExecutor(CALLERS) as threads:
        return [result.id for result in threads.map(lambda options: task.apply_async(**options), calls)]


def _seen(server: Server, url: str, called: set[str], revoked: set[str]) -> Seen:
    with SyncClient(server.address, timeout=60) as client, redis.Redis.from_url(url) as notes:

        def left() -> int:
            return len([*client.list(queue="celery", states=_ALIVE)])

        until(lambda: not left(), "timerd has ended all", PATIENCE_S, look_s=0.2)
        # What was published last may still be with the worker, which acknowledges before it runs. If it never comes,
        # it is found below.
        came(lambda: called - revoked <= {*shop.notes(notes)}, SETTLED_S, look_s=0.1)
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
