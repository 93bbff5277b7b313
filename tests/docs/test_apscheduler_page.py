"""The page of APScheduler works as it stands there: its files, with the real APScheduler; only the port differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import blocks
from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]
PAGE = "docs/use/apscheduler.md"
ADD = """
from shop import report, scheduler
scheduler._jobstores["default"]._concurrency = 0
scheduler.start()
scheduler.add_job(report, "date", args=["yearly"], id="yearly")
scheduler.shutdown()
"""


@pytest.fixture
def folder(tmp_path: Path, server: Server) -> Path:
    named = blocks.files(blocks.read(PAGE))
    assert {*named} == {"shop.py", "call.py", "runner.py"}
    blocks.write(tmp_path, named, server.address)
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(blocks.ROOT)},
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip


def test_the_page_runs_as_typed(folder: Path) -> None:
    said = run(folder, "call.py")
    assert said.stdout.splitlines() == blocks.expected((folder / "call.py").read_text()), said.stderr


def test_its_program_runs_what_others_have_added(children: Children, folder: Path, server: Server) -> None:
    program = folder / "runner.py"
    program.write_text(program.read_text().replace("worker.run", 'print("ready", flush=True)\nworker.run'))
    path = os.pathsep.join([str(folder), str(blocks.ROOT)])
    runner = children.own(Child([str(program)], folder / "runner.err", {"PYTHONPATH": path}))
    runner.start()
    added = run(folder, "-c", ADD)
    assert added.returncode == 0, added.stderr
    with SyncClient(server.address, timeout=60) as client:
        until(lambda: client.get(key="apscheduler/yearly").state is TaskState.ACKED, "it has run")
    assert runner.terminate() == 0
