"""One browser and one server for all stories of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.process.children import Server
from timerd.client import SyncClient
from timerd.demo.processes import free_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.page.browser import Visit


@dataclass
class Served:
    http: str
    server: Server
    client: SyncClient


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It keeps this thread's event loop for itself, so it ends with its module: other tests need one of their own."""
    pytest.importorskip("playwright", reason="needs playwright: pip install -e '.[dev]'")
    from tests.page.browser import CHROMIUM, MISSING, chromium, is_required

    if CHROMIUM is None and is_required():
        pytest.fail(MISSING)
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    http = f"127.0.0.1:{free_port()}"
    server = Server(tmp_path_factory.mktemp("page"), "--http", http, "--set", "http.page=act")
    server.start()
    with SyncClient(server.address) as client:
        yield Served(f"http://{http}", server, client)
    server.kill()


@pytest.fixture
def visitor(browser: Browser, served: Served) -> Iterator[Visit]:
    from tests.page.browser import visit

    with visit(browser, served.http) as seen:
        yield seen
