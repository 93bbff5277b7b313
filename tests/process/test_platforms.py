"""Other systems, as far as they can be had here: what they lack is taken away before the program begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.children import Child
from timerd.client import SyncClient
from timerd.demo.processes import free_port

FOLDER = Path(__file__).parent / "platforms"


def on(platform: str) -> dict[str, str]:
    return {"PYTHONPATH": str(FOLDER), "TIMERD_TEST_PLATFORM": platform}


def python(platform: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, *arguments], {**os.environ, **on(platform)}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def timerd(platform: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return python(platform, "-m", "timerd.cli", *arguments, stdin=stdin)


@pytest.fixture
def mac(tmp_path: Path) -> Iterator[str]:
    """The address of a server that runs on one."""
    address = f"127.0.0.1:{free_port()}"
    serve = ["-m", "timerd.cli", "serve", "--data", str(tmp_path / "data"), "--listen", address, "--json"]
    child = Child(serve, tmp_path / "errors", on("darwin"))
    assert json.loads(child.start())["ready"] == address
    yield address
    assert child.terminate() == 0
    assert child.errors() == ""


def test_a_server_on_a_mac_serves_and_fires(mac: str, tmp_path: Path) -> None:
    """Never early: the loop's timers look at the clock."""
    worker = Child(["-m", "timerd.cli", "work", "q", "--server", mac], tmp_path / "worker", on("darwin"))
    with SyncClient(mac) as client:
        client.schedule("q", b"first", delay=0)
        assert worker.start() == "first\n"
        for n in range(20):
            task = client.schedule("q", b"%d" % n, delay=0.003 * n)
            assert worker.hear() == f"{n}\n"
            assert time.time_ns() / 1e6 >= task.fire_at_ms
    assert worker.terminate() == 0


def test_clients_and_workers_run_on_windows(mac: str) -> None:
    assert timerd("win32", "schedule", "q", "hello", "--in", "1s", "--server", mac).returncode == 0
    ran = timerd("win32", "schedule", "q", "--file", "-", "--in", "1s", "--server", mac, stdin="a\nb\n")
    assert (ran.returncode, ran.stdout) == (0, "Scheduled 2 tasks on q.\n")
    ran = timerd("win32", "work", "q", "--count", "3", "--server", mac)
    assert (ran.returncode, sorted(ran.stdout.splitlines())) == (0, ["a", "b", "hello"])
    assert [line[:19] for line in ran.stderr.splitlines()] == ["timerd: The worker "]
    program = f"from timerd.client import SyncClient\nprint(SyncClient({mac!r}).count())"
    ran = python("win32", "-c", program)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("serve",),
        ("demo",),
        ("backup", "copy"),
        ("restore", "copy"),
        ("schema", "apply"),
        ("work", "q", "--exec", "cat"),
    ],
)
def test_what_windows_cannot_run_is_refused_with_a_sentence(command: tuple[str, ...]) -> None:
    ran = timerd("win32", *command)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "runs on Linux and macOS" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_system_whose_clock_is_not_known_is_refused(tmp_path: Path) -> None:
    program = "import sys, time; del time.CLOCK_BOOTTIME; from timerd.cli import main; main(sys.argv[1:])"
    ran = python("linux", "-c", program, "serve", "--data", str(tmp_path))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "needs a clock that counts suspend" in ran.stderr
