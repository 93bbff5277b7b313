"""A publisher that is killed loses nothing: what it had in hand is published again, with its id."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import redis

from tests.contrib.celery import kills, shop
from tests.contrib.celery.conftest import Dying, Publishing, Shop, Working
from tests.engines.finding import own_redis
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(290),
    # Celery's backend of Redis calls it.
    pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning"),
]


def test_killed_before_it_acknowledges_the_task_comes_again_with_its_id(
    children: Children, tmp_path: Path, timerd_server: Server, running_shop: Shop
) -> None:
    waiting = running_shop.app.tasks["shop.note"].apply_async(countdown=0.5)
    dying = children.own(Dying(tmp_path, timerd_server.address, running_shop.url, 1))
    dying.start()
    assert dying.wait() == -signal.SIGKILL
    children.own(Publishing(tmp_path, timerd_server.address, running_shop.url)).start()
    children.own(Working(tmp_path, running_shop.url, timerd_server.address)).start()
    until(lambda: len(shop.notes(running_shop.broker)) == 2, "it has run twice")
    assert {*shop.notes(running_shop.broker)} == {waiting.id}
    until(
        lambda: running_shop.client.get(key=f"celery/{waiting.id}").state is TaskState.ACKED, "timerd has no more of it"
    )


def test_kills_while_it_publishes(tmp_path: Path) -> None:
    seen = kills.play(tmp_path, 3)
    assert (seen.lost, seen.wrong, seen.left, seen.dead) == (set(), set(), 0, 0), str(seen)
    assert len(seen.revoked) == 3 * kills.PER_KILL // 10
    assert seen.again > 0


def test_a_broker_that_is_away_is_waited_for(children: Children, tmp_path: Path, timerd_server: Server) -> None:
    broker = own_redis()
    url = f"{broker.url}/0"
    app = shop.make(url, timerd_server.address, queue="patient")
    children.own(Publishing(tmp_path, timerd_server.address, url, "--queue", "patient")).start()
    # Without a word to the broker, which does not run yet.
    waiting = app.tasks["shop.add"].apply_async((1, 2), countdown=0.5, ignore_result=True)
    with SyncClient(timerd_server.address, timeout=60) as client:
        key = f"celery/{waiting.id}"
        until(lambda: client.get(key=key).state is TaskState.RETRYING, "it is tried again")
        assert "OperationalError" in client.get(key=key).last_error
        broker.start()
        try:
            until(lambda: client.get(key=key).state is TaskState.ACKED, "it is published")
            with redis.Redis.from_url(url) as published:
                assert published.llen("celery") == 1
        finally:
            broker.stop()
    shop.close(app)
