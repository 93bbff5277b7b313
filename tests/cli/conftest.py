"""Runs commands in this process, against a server that answers what a test tells it to."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer
from timerd.cli import run
from timerd.testing import Server


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever JSON there is
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Terminal:
    """`terminal("get", "A1")` is what typing `timerd get A1` does."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self.monkeypatch = monkeypatch

    def __call__(self, *arguments: str) -> Ran:
        code = run(list(arguments))
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    for name in (
        "SERVER",
        "NAMESPACE",
        "TLS_CA",
        "TLS_CERT",
        "TLS_KEY",
        "TOKEN",
        "TOKEN_FILE",
        "DATA",
        "LISTEN",
        "CONFIG",
        "TRACEBACK",
    ):
        monkeypatch.delenv(f"TIMERD_{name}", raising=False)
    log = logging.getLogger("timerd")
    kept = (log.handlers[:], log.level)
    yield Terminal(capsys, monkeypatch)
    log.handlers[:] = kept[0]
    log.setLevel(kept[1])


@pytest.fixture
def server(terminal: Terminal) -> Iterator[FakeServer]:
    """In a thread with a loop of its own, because each command runs its own; named by TIMERD_SERVER."""
    fake, loop = FakeServer(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake server")
    thread.start()
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result(20)
    terminal.monkeypatch.setenv("TIMERD_SERVER", fake.target)
    yield fake
    asyncio.run_coroutine_threadsafe(fake.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()


@pytest.fixture
def whole(terminal: Terminal) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="whole server")
    thread.start()

    async def begin() -> Server:
        server = Server()
        await server.start()
        return server

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(20)
    terminal.monkeypatch.setenv("TIMERD_SERVER", server.address)
    yield server
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(20)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(20)
    loop.close()
