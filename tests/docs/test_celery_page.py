"""The page of Celery works as it stands there: its files and its commands, with a real Redis; only the ports differ."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contrib.celery.cases import CASES
from tests.docs import blocks
from tests.process.children import Child, Server
from tests.process.conftest import Children

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
PAGE, BROKER = "docs/use/celery.md", "redis://127.0.0.1:6379"
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, broker: str, server: Server) -> Path:
    named = blocks.files(blocks.read(PAGE))
    assert {*named} == {"shop.py", "call.py", "publisher.py"}
    blocks.write(tmp_path, {name: text.replace(BROKER, broker) for name, text in named.items()}, server.address)
    return tmp_path


def commands() -> list[list[str]]:
    [typed] = _COMMANDS.findall(blocks.read(PAGE))
    return [shlex.split(line) for line in typed.splitlines()]


def started(children: Children, folder: Path, name: str, *arguments: str, **environment: str) -> Child:
    path = os.pathsep.join([str(folder), str(blocks.ROOT)])
    child = children.own(Child(arguments, folder / f"{name}.err", {"PYTHONPATH": path, **environment}))
    child.start()
    return child


def test_the_page_runs_as_typed(children: Children, folder: Path, server: Server, broker: str) -> None:
    (_, dev), (setting, timerd, *publish), (celery, *work) = commands()
    assert (dev, timerd, celery) == ("dev", "timerd", "celery")
    name, _, url = setting.partition("=")
    to_server = {"TIMERD_SERVER": server.address, name: url.replace(BROKER, broker)}
    publisher = started(children, folder, "publisher", "-m", "timerd.cli", *publish, **to_server)
    started(children, folder, "worker", "-m", "celery", *work)
    call = (folder / "call.py").read_text()
    said = subprocess.run(
        [sys.executable, "call.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(blocks.ROOT)},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert said.stdout.splitlines() == blocks.expected(call), said.stderr
    assert publisher.terminate() == 0


def test_its_program_publishes(children: Children, folder: Path) -> None:
    program = folder / "publisher.py"
    program.write_text(program.read_text().replace("worker.run", 'print("ready", flush=True)\nworker.run'))
    running = started(children, folder, "publisher", str(program))
    started(children, folder, "worker", "-m", "celery", "-A", "shop", "worker")
    called = subprocess.run(
        [sys.executable, "-c", "from shop import remind; print(remind.apply_async((7,), countdown=3).get(timeout=60))"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(blocks.ROOT)},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert called.stdout == "tea is ready, 7\n", called.stderr
    assert running.terminate() == 0


def test_the_page_tells_how_many_cases_there_are() -> None:
    assert f"has {len(CASES)} cases" in " ".join(blocks.read(PAGE).split())
