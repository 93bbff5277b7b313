"""A broker, timerd, a publisher and workers: each a process, as users start them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import redis
from celery import Celery

from tests.contrib.celery import shop
from tests.engines.finding import NotFound, own_redis
from tests.process.children import Child, Server
from tests.process.conftest import Children, children
from timerd.client import SyncClient

__all__ = ["children"]


class Publishing(Child):
    """`timerd celery run`."""

    def __init__(self, folder: Path, server: str, broker: str, *options: str) -> None:
        where = ["--server", server, *options]
        environment = {"CELERY_BROKER_URL": broker}
        super().__init__(["-m", "timerd.cli", "celery", "run", *where], folder / "publisher.err", environment)


class Dying(Child):
    """A publisher that is killed when it has published so many messages, before it acknowledges the last of them."""

    def __init__(self, folder: Path, server: str, broker: str, messages: int) -> None:
        arguments = ["-m", "tests.contrib.celery.dying", server, broker, str(messages)]
        super().__init__(arguments, folder / "dying.err")


class Working(Child):
    """A worker of the shop. Without a server it is Celery's as it comes."""

    def __init__(self, folder: Path, broker: str, server: str, timeout_s: float = 30) -> None:
        environment = {shop.BROKER: broker, shop.SERVER: server, shop.TIMEOUT: str(timeout_s)}
        name = f"worker-of-{server or 'celery'}.err".replace(":", "-")
        super().__init__(["-m", "tests.contrib.celery.shop"], folder / name, environment)


class Shop(NamedTuple):
    """What a test needs of all that runs."""

    app: Celery
    broker: redis.Redis
    client: SyncClient
    url: str


@pytest.fixture(scope="module")
def module_children() -> Iterator[Children]:
    owned = Children()
    yield owned
    owned.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


@pytest.fixture(scope="module")
def broker_url() -> Iterator[str]:
    """A database of a Redis of its own."""
    try:
        running = own_redis()
    except NotFound as why:
        pytest.skip(str(why))
    running.start()
    yield f"{running.url}/0"
    running.stop()


@pytest.fixture(scope="module")
def timerd_server(module_children: Children, folder: Path) -> Server:
    server = module_children.own(Server(folder))
    server.start()
    return server


@pytest.fixture(scope="module")
def publisher(module_children: Children, folder: Path, timerd_server: Server, broker_url: str) -> Publishing:
    running = module_children.own(Publishing(folder, timerd_server.address, broker_url))
    running.start()
    return running


@pytest.fixture(scope="module")
def running_shop(timerd_server: Server, broker_url: str) -> Iterator[Shop]:
    app = shop.make(broker_url, timerd_server.address)
    with SyncClient(timerd_server.address, timeout=60) as client, redis.Redis.from_url(broker_url) as broker:
        yield Shop(app, broker, client, broker_url)
    shop.close(app)
