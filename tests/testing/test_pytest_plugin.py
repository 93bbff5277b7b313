"""The fixtures of the pytest plugin, in a suite of its own process, as a project has it that uses timerd."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "timerd.testing.pytest_plugin"

SYNC = """
from datetime import UTC, datetime, timedelta

from timerd import SyncClient, Worker

worker, got = Worker(), []


@worker.on("mails")
def send(delivery):
    got.append(delivery.payload)


def test_a_mail_comes_an_hour_later(timerd_server, timerd_client):
    with timerd_server.working(worker):
        timerd_client.schedule("mails", b"hello", delay=3600)
        timerd_server.advance(minutes=59)
        assert [task.payload for task in timerd_server.scheduled("mails")] == [b"hello"]
        assert got == []
        timerd_server.advance(minutes=1)
    assert got == [b"hello"]


def test_each_has_a_server_of_its_own(timerd_server):
    assert timerd_server.scheduled("mails") == []
    assert timerd_server.now == datetime(2030, 1, 1, tzinfo=UTC)
"""
OPTIONS = """
from datetime import UTC, datetime

import pytest


@pytest.fixture
def timerd_server_options():
    return {"start": datetime(2031, 2, 3, tzinfo=UTC)}


def test_it_starts_when_the_project_says(timerd_server):
    assert timerd_server.now == datetime(2031, 2, 3, tzinfo=UTC)
"""
ASYNC = """
import pytest

{mark}
async def test_a_mail_waits(timerd_async_server, timerd_async_client):
    await timerd_async_client.schedule("mails", b"hello", delay=3600)
    [task] = await timerd_async_server.scheduled("mails")
    assert task.payload == b"hello"
    await timerd_async_server.advance(hours=1)
    assert len(await timerd_async_client.receive("mails", wait=10)) == 1
"""
ANYIO = """

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""
LIGHT = """
import sys

heavy = ("asyncio", "grpc", "google.protobuf", "numpy", "pydantic", "sqlite3", "timerd.client", "timerd.worker")


def test_nothing_was_imported_for_the_fixtures():
    assert "timerd.testing.pytest_plugin" in sys.modules
    assert [name for name in heavy if name in sys.modules] == []
"""


def run(folder: Path, suite: str, *options: str) -> str:
    """Plugins are named here, since only an installed timerd has the entry point."""
    (folder / "test_suite.py").write_text(suite)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-Werror", "-p", PLUGIN, "-p", "no:cacheprovider", *options],
        cwd=folder, env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_suite_without_asyncio(tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, SYNC)


def test_a_project_chooses_how_its_servers_are_made(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, OPTIONS)


@pytest.mark.parametrize(("mode", "mark"), [("strict", "@pytest.mark.asyncio"), ("auto", "")])
def test_a_suite_of_pytest_asyncio(tmp_path: Path, mode: str, mark: str) -> None:
    options = (
        "-p",
        "pytest_asyncio.plugin",
        f"--asyncio-mode={mode}",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    assert "1 passed" in run(tmp_path, ASYNC.format(mark=mark), *options)


def test_a_suite_of_anyio(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, ASYNC.format(mark="@pytest.mark.anyio") + ANYIO, "-p", "anyio.pytest_plugin")


def test_a_suite_that_uses_none_of_it_pays_nothing(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, LIGHT)


def test_an_installed_timerd_tells_pytest_of_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"timerd": PLUGIN}
    assert import_module(PLUGIN).timerd_server
