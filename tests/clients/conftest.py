"""A real server with its HTTP port, and drivers in each language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.driver import Driver
from tests.clients.languages import LANGUAGES, require
from tests.process.children import Server
from tests.process.conftest import children
from timerd.client import SyncClient
from timerd.demo.processes import free_port

__all__ = ["children"]


class Served(NamedTuple):
    server: Server
    http: str
    client: SyncClient


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    http = f"127.0.0.1:{free_port()}"
    server = Server(tmp_path, "--http", http)
    server.start()
    with SyncClient(server.address, timeout=60) as client:
        yield Served(server, f"http://{http}", client)
    server.kill()


@pytest.fixture(params=LANGUAGES)
def command(request: pytest.FixtureRequest) -> list[str]:
    """The driver of a language."""
    require(LANGUAGES[request.param])
    return LANGUAGES[request.param].build()


@pytest.fixture
def drive(command: list[str], tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Starts a driver on an address."""
    running: list[Driver] = []

    def start(address: str, **options: object) -> Driver:
        running.append(Driver(command, address, tmp_path / "driver.err", **options))
        return running[-1]

    yield start
    for driver in running:
        driver.kill()


@pytest.fixture
def driver(drive: Callable[..., Driver], served: Served) -> Driver:
    return drive(served.http)
