"""Each Python block of docs/use is run as it stands there, on a server of its own process; only the port differs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.docs.playing import ALIVE, play, states, work
from tests.process.children import Server
from tests.process.waiting import until
from timerd.client import SyncClient

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
TUTORIAL = "docs/use/tutorial.md"
# Run by `tests/docs/test_testing_page.py`.
TESTING = "docs/use/testing.md"
TYPED = (
    *("docs/use/concepts.md", "docs/use/concurrency.md", "docs/use/schedules.md"),
    *("docs/use/cycles.md", "docs/use/typed.md", "docs/use/regulation.md", "docs/use/set-ups.md"),
)
ORDERING = "docs/use/ordering.md"
# Run by tests/docs/test_webhooks_page.py.
WEBHOOKS = "docs/use/webhooks.md"
# Run by tests/docs/test_celery_page.py.
CELERY = "docs/use/celery.md"
# Run by tests/docs/test_apscheduler_page.py.
APSCHEDULER = "docs/use/apscheduler.md"
# Run by tests/docs/test_coming_from_page.py.
COMING_FROM = "docs/use/coming-from.md"
# Run by tests/docs/test_outbox_page.py.
OUTBOX = "docs/use/outbox.md"
PATIENCE_S = 120
SETTINGS = """
SECRET_KEY = "of a test"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = ["bookings"]
ROOT_URLCONF = "urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}}
"""
URLS = """
from django.urls import path
from bookings.views import booking
urlpatterns = [path("bookings/<int:number>", booking)]
"""
BOOK = """
import json
from datetime import datetime, timedelta, timezone

import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
soon = datetime.now(timezone.utc) + timedelta(hours=1, seconds=1)
for number, customer in ((1, "Ada"), (2, "Bob")):
    body = json.dumps({"customer": customer, "starts_at": soon.isoformat()})
    print(Client().put(f"/bookings/{number}", body, content_type="application/json").json())
print(Client().delete("/bookings/2").json())
"""
CALL_APP = """
from datetime import datetime, timedelta, timezone

from fastapi.testclient import TestClient
from app import app
with TestClient(app) as http:
    starts_at = datetime.now(timezone.utc) + timedelta(hours=3)
    for hours in (0, 1):
        booking = {"customer": "Ada", "starts_at": (starts_at + timedelta(hours=hours)).isoformat()}
        print(http.put("/bookings/1", json=booking).json())
    print(http.delete("/bookings/1").json())
"""


def test_every_page_of_use_is_run_here() -> None:
    with_blocks = [path for path in (blocks.ROOT / "docs/use").glob("*.md") if blocks.blocks(path.read_text())]
    pages = {TUTORIAL, TESTING, WEBHOOKS, CELERY, APSCHEDULER, COMING_FROM, OUTBOX, ORDERING, *TYPED}
    assert {path.relative_to(blocks.ROOT).as_posix() for path in with_blocks} == pages


def test_concepts(server: Server) -> None:
    *typed, last = blocks.blocks(blocks.read(TYPED[0]))
    names = play(typed, server.address, {})
    with SyncClient(server.address) as client:
        asyncio.run(work(names["worker"], lambda: not ALIVE.intersection(states(client, "orders"))))
    play([last], server.address, names)
    names["client"].close()


def test_concurrency(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(TYPED[1])), server.address, {})
    asyncio.run(work(names["worker"], lambda: len(names["charged"]) == 1 and len(names["stored"]) == 2))
    assert (names["charged"], sorted(names["stored"])) == ([b"order 17"], [b"1", b"2"])
    assert (names["pool"].slots, names["pdf"].__name__) == (8, "pdf")
    with SyncClient(server.address) as client:
        [failed] = [task for task in client.list(queue="readings") if task.last_error]
    assert "no number: b'three'" in failed.last_error


def test_schedules(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(TYPED[2])), server.address, {})
    asyncio.run(work(names["worker"], lambda: len(names["seen"]) >= 2))
    assert {(name, reason.name) for name, reason in names["seen"]} >= {("report", "TRIGGER"), ("books", "TRIGGER")}
    names["client"].close()


def test_cycles(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(TYPED[3])), server.address, {})
    asyncio.run(work(names["worker"], lambda: {*names["synced"]} == {*range(30)}))
    names["client"].close()


def test_ordering(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(ORDERING)), server.address, {})
    asyncio.run(work(names["worker"], lambda: len(names["published"]) == 3))
    assert [payload for key, payload in names["published"] if key == "doc-42"] == [b"title", b"text"]
    names["client"].close()


def test_typed(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(TYPED[4])), server.address, {})
    asyncio.run(work(names["worker"], lambda: len(names["sent"]) == 12))
    assert {(7, "tea is ready"), (8, "call Ada")} < {*names["sent"]}


def test_regulation(server: Server) -> None:
    play(blocks.blocks(blocks.read(TYPED[5])), server.address, {})["client"].close()


def test_set_ups(server: Server) -> None:
    names = play(blocks.blocks(blocks.read(TYPED[6])), server.address, {})
    ends = {"order", "export", "doc-42: print"}
    asyncio.run(work(names["worker"], lambda: ends <= {*names["done"]} and len(names["seen"]) == 2))
    assert names["seen"] == [b"password", b"newsletter"]
    assert [each for each in names["done"] if each.startswith("doc-42")] == [
        f"doc-42: {change}" for change in ("draft", "review", "print")
    ]
    asyncio.run(work(names["versatile"], lambda: ("versatile", "excel") in names["by_worker"]))
    asyncio.run(work(names["plain"], lambda: len(names["by_worker"]) == 21))
    names["client"].close()


@pytest.fixture
def folder(server: Server, tmp_path: Path) -> Path:
    """The files of the tutorial, in a folder from which they can be imported."""
    shop = tmp_path / "shop"
    blocks.write(shop, blocks.files(blocks.read(TUTORIAL)), server.address)
    for package in ("bookings", "bookings/management", "bookings/management/commands"):
        (shop / package / "__init__.py").touch()
    return shop


def python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment(folder), capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(folder), str(blocks.ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "DJANGO_SETTINGS_MODULE": "settings"}


@pytest.fixture
def started(folder: Path) -> Iterator[Callable[..., Path]]:
    """Starts a program; what it prints is in the file."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> Path:
        output = folder / "output"
        with output.open("wb") as out:
            command = [sys.executable, *arguments]
            running.append(subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=out))
        return output

    yield start
    for process in running:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_the_tutorial_has_these_files(folder: Path) -> None:
    names = set(blocks.files(blocks.read(TUTORIAL)))
    assert len(names) == len(blocks.blocks(blocks.read(TUTORIAL)))
    assert {name for name in names if "/" not in name} == {"reminders.py", "worker.py", "test_reminders.py", "app.py"}


def test_its_tests_pass(folder: Path) -> None:
    said = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "test_reminders.py")
    assert "3 passed" in said


def test_its_worker_fills_the_outbox(folder: Path, server: Server, started: Callable[..., Path]) -> None:
    with SyncClient(server.address) as client:
        task = client.schedule("reminders", b'{"customer": "Ada", "starts_at": "18:00"}', delay=0)
        started("worker.py")
        until(lambda: client.get(task.id).state.name == "ACKED", "the reminder is acknowledged")
    assert (folder / "bookings.db").exists()


@pytest.mark.skipif(
    not (find_spec("fastapi") and find_spec("httpx")), reason="FastAPI is not installed: pip install fastapi httpx"
)
def test_fastapi(folder: Path) -> None:
    first, moved, cancelled = python(folder, "-c", CALL_APP).splitlines()
    assert first.startswith("{'reminder': ")
    assert moved > first
    assert cancelled == "{'no_reminder_comes': True}"


@pytest.mark.skipif(not find_spec("django"), reason="Django is not installed: pip install django")
def test_django(folder: Path, started: Callable[..., Path]) -> None:
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "urls.py").write_text(URLS)
    said = python(folder, "-c", BOOK).splitlines()
    assert said[2] == "{'reminder': 'CANCELLED'}"
    output = started("-m", "django", "remind")
    until(lambda: b"Ada: you are expected at" in output.read_bytes(), "the reminder has come")
    assert b"Bob" not in output.read_bytes()
