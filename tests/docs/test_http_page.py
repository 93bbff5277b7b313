"""Each sh block of docs/use/http.md is typed as it stands there, with the real curl; only the port differs. What a text
block after it shows is what it printed, `...` for what differs each time."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs import blocks
from tests.process.children import Server
from tests.process.conftest import Children
from timerd.demo.processes import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed here"),
]
PAGE, ADDRESS = "docs/use/http.md", "127.0.0.1:7401"
_BLOCK = re.compile(r"^```sh\n(.*?)^```$(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Typed(NamedTuple):
    command: str
    shown: str


def typed_blocks() -> list[Typed]:
    return [Typed(command, shown) for command, shown in _BLOCK.findall(blocks.read(PAGE))]


def pattern_of(shown: str) -> str:
    return ".*".join(map(re.escape, shown.strip().split("...")))


@pytest.fixture
def http(children: Children, tmp_path: Path) -> str:
    address = f"127.0.0.1:{free_port()}"
    children.own(Server(tmp_path, "--http", address)).start()
    return address


def run(command: str, http: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.replace(ADDRESS, http)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), (command, done)
    return done.stdout.strip()


def test_the_page_runs_as_typed(http: str, tmp_path: Path) -> None:
    assert len(typed_blocks()) >= 3
    for command, shown in typed_blocks():
        said = run(command, http, tmp_path)
        assert re.fullmatch(pattern_of(shown), said, re.DOTALL), (command, said)
