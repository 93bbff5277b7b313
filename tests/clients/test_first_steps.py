"""The README of each client: its lines are typed in a folder beside the checkout, and its program calls and works."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.conftest import Served
from tests.clients.languages import CLIENTS, ENVIRONMENT, GO, ROOT, TYPESCRIPT, Language, one_at_a_time, require, run
from tests.process.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
ADDRESS = "http://127.0.0.1:7401"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`([\w.]+\.\w+)`[^`]*\n```")
MOST_LINES = 300


class Steps(NamedTuple):
    file: str
    program: str
    before: str
    start: str


def steps(language: Language) -> Steps:
    """Of its README: what is typed before, the program, and how it is started."""
    text = (CLIENTS / language.name / "README.md").read_text(encoding="utf-8")
    (_, before), (_, program), (_, start) = _BLOCK.findall(text)
    [file] = _FILE.findall(text)
    return Steps(file, program, before, start)


def typed(command: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, (command, done)


@pytest.mark.parametrize("language", [GO, TYPESCRIPT], ids=lambda language: language.name)
def test_the_readme_runs_as_typed(language: Language, served: Served, tmp_path: Path) -> None:
    require(language)
    file, program, before, start = steps(language)
    folder = tmp_path / "reminders"
    folder.mkdir()
    (tmp_path / "timerd").symlink_to(ROOT)
    with one_at_a_time():
        typed(before, folder)
    assert ADDRESS in program
    (folder / file).write_text(program.replace(ADDRESS, served.http), encoding="utf-8")
    output = tmp_path / "output"
    with output.open("wb") as out:
        running = subprocess.Popen(
            ["bash", "-c", start], cwd=folder, env=ENVIRONMENT, stdout=out, stderr=out, start_new_session=True
        )
    try:
        until(lambda: b"tea is ready (attempt 1)" in output.read_bytes(), "the reminder has come")
        until(lambda: not [*served.client.list(queue="reminders")], "it is acknowledged")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    said = output.read_text().splitlines()
    assert said[0].startswith("safe on disk, fires at ")
    assert said[1].startswith("CANCELLED")


@pytest.mark.parametrize(("folder", "files"), [("go", "*.go"), ("typescript/src", "*.ts")])
def test_the_clients_stay_thin(folder: str, files: str) -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in (CLIENTS / folder).glob(files)}
    assert len(lines) >= 2
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("http://timers.example:7401", True),
        ("http://10.0.0.1:7401", True),
        ("http://127.0.0.1:7401", False),
        ("http://localhost:7401", False),
        ("http://[::1]:7401", False),
        ("https://timers.example:7401", False),
    ],
)
def test_a_token_goes_over_tls_only(address: str, is_refused: bool, command: list[str]) -> None:
    done = subprocess.run(
        [*command, address, '{"token": "secret"}'],
        input="", capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60,
    )  # fmt: skip
    assert (done.returncode != 0) is is_refused
    assert ("over TLS only" in done.stdout + done.stderr) is is_refused


def test_the_go_is_as_gofmt_and_vet_want_it() -> None:
    require(GO)
    for folder in (CLIENTS / "go", ROOT / "tests/clients/go_driver"):
        assert run(folder, "gofmt", "-l", ".") == ""
        run(folder, "go", "vet", "./...")
