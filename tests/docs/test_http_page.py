"""Each sh block of docs/use/http.md is typed as it stands there, with the real curl; only the port differs. What a text
block after it shows is what it printed, `...` for what differs each time. Its worker in bash works."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs import blocks
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState
from timerd.demo.processes import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed here"),
]
PAGE, ADDRESS = "docs/use/http.md", "127.0.0.1:7401"
_WORKER = re.compile(r"`worker.sh`.*?^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Typed(NamedTuple):
    command: str
    shown: str


def typed_blocks() -> list[Typed]:
    return [Typed(command, shown) for command, shown in _BLOCK.findall(blocks.read(PAGE))]


def pattern_of(shown: str) -> str:
    """Where nothing is shown: whatever is no error."""
    return ".*".join(map(re.escape, shown.strip().split("..."))) if shown else r'(?!\{"code").*'


@pytest.fixture
def http() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def server(children: Children, tmp_path: Path, http: str) -> Server:
    running = children.own(Server(tmp_path, "--http", http))
    running.start()
    return running


def run(command: str, http: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.replace(ADDRESS, http)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), (command, done)
    return done.stdout.strip()


@pytest.mark.usefixtures("server")
def test_the_page_runs_as_typed(http: str, tmp_path: Path) -> None:
    assert len(typed_blocks()) >= 9
    for command, shown in typed_blocks():
        said = run(command, http, tmp_path)
        assert re.fullmatch(pattern_of(shown), said, re.DOTALL), (command, said)


def test_its_worker_works(server: Server, http: str, tmp_path: Path) -> None:
    """Also where a task fails once, and where the server is away for a moment."""
    [script] = _WORKER.findall(blocks.read(PAGE))
    assert len([line for line in script.splitlines() if line.strip()]) <= 20
    path, printed = tmp_path / "worker.sh", tmp_path / "printed"
    path.write_text(
        script.replace("jq -r .payload <<<", """[[ $1 != *'"attempt":1,'*fails* ]] && jq -r .payload <<<""")
    )
    with printed.open("wb") as out:
        worker = subprocess.Popen(["bash", str(path), f"http://{http}"], stdout=out, start_new_session=True)
    try:
        with SyncClient(server.address, timeout=60) as client:
            tea = client.schedule("reminders", "tea is ready", delay=0)
            bad = client.schedule("reminders", "fails", delay=0)
            until(lambda: client.get(tea.id).state is TaskState.ACKED, "the first is acknowledged")
            until(lambda: client.get(bad.id).state is TaskState.ACKED, "the other is, in its second attempt")
            server.terminate()
            server.start()
            late = client.schedule("reminders", "after a restart", delay=0)
            until(lambda: client.get(late.id).state is TaskState.ACKED, "it went on after the restart")
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    assert set(printed.read_text().splitlines()) >= {"tea is ready", "fails", "after a restart"}
